#!/usr/bin/env bash
# Starts the controller and one agent on each of the other machines that
# `terraform apply` made here, and says how to measure. Their token is made on
# the controller, for as long as the machines live, and goes over ssh.
set -euo pipefail

usage() {
	cat >&2 <<'END'
usage: start.sh BINARY
  BINARY   the static ceiling for these machines (make build); for machines of
           both kinds a path with {arch}, as ./ceiling-{arch} for ./ceiling-amd64
           and ./ceiling-arm64; ceiling-controller, named alike, lies beside it
needs: terraform (or TERRAFORM=tofu), and the ssh key in an agent
END
	exit 2
}
[ $# -eq 1 ] || usage
binary=$1
here=$(cd "$(dirname "$0")" && pwd)
terraform=${TERRAFORM:-terraform}
command -v "$terraform" >/dev/null || { echo "start.sh: $terraform is missing" >&2; exit 1; }

get() { "$terraform" -chdir="$here" output -raw "$1" || { echo "start.sh: no output $1: terraform apply first" >&2; exit 1; }; }
controller=$(get controller_host)
join=$(get join_address)
server=$(get server_address)
minutes=$(get max_minutes)
read -ra others <<<"$(get agent_hosts)"

remote() { "${SSH:-ssh}" -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new "$@"; }

for host in "$controller" "${others[@]}"; do
	for ((try = 1; ; try++)); do
		if remote "$host" test -e /var/lib/ceiling-ready 2>/dev/null; then break; fi
		if [ "$try" -ge 30 ]; then
			echo "start.sh: $host is not ready after five minutes: ssh $host sudo cat /var/log/cloud-init-output.log" >&2
			exit 1
		fi
		sleep 10
	done
	echo "$host is up" >&2
done

for program in ceiling ceiling-controller; do
	name=$(basename "${binary//\{arch\}/amd64}")
	remote "$controller" "cat > /tmp/$program && sudo install -m 755 /tmp/$program /usr/local/bin/$program" \
		<"$(dirname "$binary")/${name/ceiling/$program}" || { echo "start.sh: $program for the controller is missing: make build" >&2; exit 1; }
done
remote "$controller" "sudo systemctl stop ceiling-controller 2>/dev/null; sudo systemd-run --quiet --collect --unit=ceiling-controller \
	-p RuntimeMaxSec=${minutes}min -p LimitNOFILE=1048576 -E XDG_DATA_HOME=/var/lib \
	/usr/local/bin/ceiling-controller --listen 0.0.0.0:4222 --advertise ${join#nats://}"
line=
for ((try = 1; try <= 20; try++)); do
	line=$(remote "$controller" "sudo journalctl -q -u ceiling-controller -o cat | grep -o 'ceiling fleet agent --join .*' | tail -1" || true)
	[ -n "$line" ] && break
	sleep 1
done
if [ -z "$line" ]; then
	echo "start.sh: the controller printed no join line in 20 s: ssh $controller sudo journalctl -u ceiling-controller" >&2
	exit 1
fi
CEILING_TOKEN=$(remote "$controller" "sudo XDG_DATA_HOME=/var/lib ceiling fleet tokens create --expires ${minutes}m")
export CEILING_TOKEN
"$here/../../ssh/place.sh" --binary "$binary" --for "${minutes}m" - "${others[@]}" -- --allow "$server/32" <<<"$line"
cat <<END
measure: ssh $controller
         sudo -i; export XDG_DATA_HOME=/var/lib
         ceiling fleet
         (and a server: ssh ${others[0]})
         ceiling run http://$server:8080/ --agents $((${#others[@]} - 1)) --observe ip-${server//./-}
the end: terraform destroy; every machine ends itself $minutes minutes after its first boot
END
