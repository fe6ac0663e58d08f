# shellcheck shell=bash
# The far side of place.sh, which sends it to a bash on the host: starts the
# agent in $dir for $life with the arguments given, looks whether it lives, and
# prints how to stop it. $host is what the near side calls this machine.
set -euo pipefail
: "${dir:?}" "${life:?}" "${host:?}"

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo -n)
if [ -d /run/systemd/system ] && { [ ${#root[@]} -eq 0 ] || sudo -n true 2>/dev/null; }; then
	unit=${dir##*/}
	unit=${unit//./-}
	# The bounds of ../systemd/ceiling-agent.service that a transient unit needs.
	"${root[@]}" systemd-run --quiet --collect --unit="$unit" -p RuntimeMaxSec="$life" \
		-p LimitNOFILE=1048576 -p LimitMEMLOCK=infinity -p LoadCredential=token:"$dir/token" \
		-p ExecStopPost="/bin/rm -rf $dir" \
		"$dir/ceiling" fleet agent --token-file "/run/credentials/$unit.service/token" "$@"
	alive() { "${root[@]}" systemctl is-active --quiet "$unit"; }
	log() { "${root[@]}" journalctl -q -u "$unit" -o cat -n 5; }
	stop="${root[*]} systemctl stop $unit"
else
	# A session and one group of its own, which is stopped as one (without
	# --foreground timeout would make another). When its time is up only the
	# log stays.
	# shellcheck disable=SC2016 # it is the inner shell that expands
	setsid bash -c 'dir=$1; shift; timeout --foreground "$@"; rm -f "$dir/ceiling" "$dir/token"' agent "$dir" \
		"$life" "$dir/ceiling" fleet agent --token-file "$dir/token" "$@" </dev/null >"$dir/log" 2>&1 &
	pid=$!
	alive() { kill -0 "$pid" 2>/dev/null; }
	log() { tail -n 5 "$dir/log"; }
	stop="kill -- -$pid; rm -rf $dir"
fi
for ((i = 0; i < 10; i++)); do
	if ! alive; then
		log >&2
		rm -rf "$dir"
		exit 1
	fi
	sleep 0.2
done
echo "$host runs an agent for $life; stop it: ssh $host '${stop# }'"
