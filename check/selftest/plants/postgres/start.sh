# Makes a database cluster in this directory and serves it on $PORT: start.sh BIN USER
set -e
bin=$1 user=$2
as() { if [ "$(id -u)" -eq 0 ]; then setpriv --reuid="$user" --regid="$user" --clear-groups "$@"; else "$@"; fi; }
[ "$(id -u)" -ne 0 ] || chown "$user:" .
as "$bin/initdb" -D data -U plant -A trust --no-sync >/dev/null
cat >>data/postgresql.conf <<-END
	listen_addresses = '$HOST'
	port = $PORT
	unix_socket_directories = ''
	max_connections = 100
	shared_buffers = 64MB
	autovacuum = off
END
as "$bin/postgres" --single -D data postgres >/dev/null <<-END
	create table stock (id int primary key, n int not null)
	insert into stock select i, 0 from generate_series(0, 99) i
	create table orders (id bigserial, what text)
END
if [ "$(id -u)" -eq 0 ]; then
	exec setpriv --reuid="$user" --regid="$user" --clear-groups "$bin/postgres" -D data
fi
exec "$bin/postgres" -D data
