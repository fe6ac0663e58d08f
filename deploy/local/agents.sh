#!/usr/bin/env bash
# Runs some agents on this machine until Ctrl-C or their time is up: each a
# process of its own, and with --netns each in a network namespace of its own,
# on a bridge that this machine stands on too. That tries a fleet out without
# other machines; they all share this machine's CPUs, so it measures nothing
# that one generator would not.
set -euo pipefail

usage() {
	cat >&2 <<'END'
usage: agents.sh [--agents N] [--netns] [--binary FILE] [--for TIME] JOIN_LINE [-- ARGUMENTS OF THE AGENTS]
  JOIN_LINE      what ceiling fleet controller prints, in quotes; - reads it from
                 standard input. The token is in the file that the line names,
                 or in CEILING_TOKEN
  --agents N     how many, up to 64 (2)
  --netns        each in a network namespace of its own, as root: this machine is
                 10.83.1.1 on their bridge, agent n is 10.83.1.(n+1). The
                 controller has to say so in its line:
                 ceiling fleet controller --listen 0.0.0.0:4222 --advertise 10.83.1.1:4222
  --binary FILE  (./ceiling)
  --for TIME     all end after it: 90s, 30m, 2h (30m)
END
	exit 2
}

die() {
	echo "agents.sh: $1" >&2
	exit "${2:-1}"
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/joinline.sh
. "$here/../joinline.sh"

count=2
netns=
binary=./ceiling
life=30m
while [[ ${1:-} == --* ]]; do
	case $1 in
	--netns)
		netns=yes
		shift
		continue
		;;
	esac
	[ $# -ge 2 ] || usage
	case $1 in
	--agents) count=$2 ;;
	--binary) binary=$2 ;;
	--for) life=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[ $# -ge 1 ] || usage
line=$1
shift
if [ $# -gt 0 ]; then
	[ "$1" = -- ] || usage
	shift
fi
[[ $count =~ ^([1-9]|[1-5][0-9]|6[0-4])$ ]] || die "--agents $count: a whole number from 1 to 64" 2
[[ $life =~ ^[1-9][0-9]{0,5}[smh]$ ]] || die "--for $life: a whole number with s, m or h behind it" 2
[ -x "$binary" ] || die "there is no $binary that runs: make build, or --binary FILE"
token=
join=()
read_join_line "$line" || exit 2

# ceil and the process id: what is not ours is never taken away.
bridge=ceil$$
pids=()
spaces=()
dir=$(mktemp -d)
# shellcheck disable=SC2317 # called by the trap
finish() {
	trap '' INT TERM
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	wait
	local space
	for space in "${spaces[@]}"; do
		ip netns delete "$space" || true
	done
	[ -z "$netns" ] || ip link delete "$bridge" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
(umask 077 && printf '%s\n' "$token" >"$dir/token")

if [ -n "$netns" ]; then
	[ "$(id -u)" -eq 0 ] || die "--netns makes network namespaces, which takes root"
	if ip -o address show | grep -q ' 10\.83\.1\.'; then
		die "10.83.1.0/24 is in use here: are other agents in namespaces still running?"
	fi
	ip link add "$bridge" type bridge
	ip address add 10.83.1.1/24 dev "$bridge"
	ip link set "$bridge" up
fi

for ((i = 1; i <= count; i++)); do
	within=()
	if [ -n "$netns" ]; then
		space=$bridge-$i
		ip netns add "$space"
		spaces+=("$space")
		ip link add "v$$-$i" type veth peer name eth0 netns "$space"
		ip link set "v$$-$i" master "$bridge" up
		ip -n "$space" address add "10.83.1.$((i + 1))/24" dev eth0
		ip -n "$space" link set lo up
		ip -n "$space" link set eth0 up
		within=(ip netns exec "$space")
	fi
	"${within[@]}" timeout "$life" "$binary" fleet agent --token-file "$dir/token" --name "local-$i" "${join[@]}" "$@" </dev/null &
	pids+=($!)
done
echo "$count agents run for $life; Ctrl-C ends them" >&2

# One that ends badly is told, and ends the others; timeout's 124 is the time.
status=0
for ((i = 0; i < count; i++)); do
	code=0
	wait -n "${pids[@]}" || code=$?
	case $code in
	0 | 124) ;;
	*)
		status=1
		echo "agents.sh: an agent ended with code $code" >&2
		break
		;;
	esac
done
exit "$status"
