#!/usr/bin/env bash
# Puts an agent on each of the hosts by ssh: copies the binary, starts it with a
# bound on its life, and prints how to stop it.
set -euo pipefail

usage() {
	cat >&2 <<'END'
usage: place.sh [--binary FILE] [--for TIME] JOIN_LINE HOST… [-- ARGUMENTS OF THE AGENT]
  JOIN_LINE      what ceiling fleet controller prints, in quotes; - reads it from
                 standard input. The token is in the file that the line names,
                 here, or in CEILING_TOKEN
  HOST           as for ssh: name, user@address, or a Host of ~/.ssh/config
  --binary FILE  the static ceiling (./ceiling); {arch} in it becomes the host's
                 amd64 or arm64
  --for TIME     the agent ends after it: 90s, 30m, 12h (2h)
example: place.sh - load1 load2 -- --allow 10.0.0.0/24 --max-rate 1M < line
The agent runs under systemd where it can (root or sudo without a password),
otherwise as a process of the user. SSH names another ssh.
END
	exit 2
}

die() {
	echo "place.sh: $1" >&2
	exit "${2:-1}"
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/joinline.sh
. "$here/../joinline.sh"

binary=./ceiling
life=2h
while [[ ${1:-} == --* ]]; do
	[ $# -ge 2 ] || usage
	case $1 in
	--binary) binary=$2 ;;
	--for) life=$2 ;;
	*) usage ;;
	esac
	shift 2
done
[ $# -ge 2 ] || usage
line=$1
shift
hosts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	hosts+=("$1")
	shift
done
[ $# -gt 0 ] && shift
[ ${#hosts[@]} -gt 0 ] || usage
[[ $life =~ ^[1-9][0-9]{0,5}[smh]$ ]] || die "--for $life: a whole number with s, m or h behind it" 2
token=
join=()
read_join_line "$line" || exit 2
arguments=$(printf ' %q' "${join[@]}" "$@")

remote() {
	local host=$1
	shift
	timeout 120 "${SSH:-ssh}" -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new "$host" "$@"
}

# place HOST: three connections, and what goes wrong is said with the host
# before it.
place() {
	local host=$1 kind dir
	# shellcheck disable=SC2016 # it is the far shell that expands
	read -r kind dir < <(remote "$host" 'umask 077; echo "$(uname -m) $(mktemp -d "${TMPDIR:-/tmp}/ceiling-agent.XXXXXX")"') || true
	if [ -z "$dir" ]; then
		echo "$host: no ssh, or not without a password, or no directory for temporary files" >&2
		return 1
	fi
	fill "$host" "$kind" "$dir" && return
	remote "$host" "rm -rf $dir" || true # it is told already that this host does not do
	return 1
}

# fill HOST KIND DIR puts binary and token into the directory, and starts.
fill() {
	local host=$1 kind=$2 dir=$3 from
	case $kind in
	x86_64) kind=amd64 ;;
	aarch64) kind=arm64 ;;
	*) echo "$host: a $kind; ceiling runs on x86_64 and aarch64" >&2; return 1 ;;
	esac
	from=${binary//\{arch\}/$kind}
	[ -f "$from" ] || { echo "$host: there is no $from here: make build, or --binary FILE" >&2; return 1; }
	remote "$host" "cat > $dir/ceiling && chmod 700 $dir/ceiling && $dir/ceiling --version" <"$from" >/dev/null || {
		echo "$host: $from could not be copied to $dir, or does not run there" >&2
		return 1
	}
	{ printf '%s\n' "$token"; cat "$here/start-agent.sh"; } |
		remote "$host" "umask 077; IFS= read -r token; printf '%s\n' \"\$token\" > $dir/token; dir=$dir life=$life host=$(printf %q "$host") bash -s --$arguments" || {
		echo "$host: the agent did not start" >&2
		return 1
	}
}

failed=0
for host in "${hosts[@]}"; do
	place "$host" || failed=$((failed + 1))
done
[ "$failed" -eq 0 ] || die "$failed of ${#hosts[@]} hosts have no agent"
