# shellcheck shell=bash
# Sourced by the scripts that place agents: takes the line that `ceiling
# controller` prints apart. The token goes into a variable of its own, to be
# handed on in a file: an argument can be read by every user of a machine.

# read_join_line LINE sets token and the array join, which is the rest of the
# line's arguments. A LINE of - is read from standard input.
read_join_line() {
	local line=$1 words i
	if [ "$line" = - ]; then
		IFS= read -r line || [ -n "$line" ] || { echo "no join line on standard input" >&2; return 2; }
	fi
	read -ra words <<<"${line#*ceiling agent }"
	token=
	join=()
	for ((i = 0; i < ${#words[@]}; i++)); do
		case ${words[i]} in
		--token) token=${words[++i]-} ;;
		--token=*) token=${words[i]#--token=} ;;
		*) join+=("${words[i]}") ;;
		esac
	done
	token=${token:-${CEILING_TOKEN:-}}
	case " ${join[*]} " in
	*" --join "* | *" --join="*) ;;
	*)
		echo "the join line is the one that ceiling controller prints: ceiling agent --join nats://HOST:4222 --token TOKEN" >&2
		return 2
		;;
	esac
	if [ -z "$token" ]; then
		echo "the join line has no --token, and CEILING_TOKEN is empty" >&2
		return 2
	fi
	# They go through the shell of another machine.
	for ((i = 0; i < ${#join[@]}; i++)); do
		if [[ ! ${join[i]} =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then
			echo "the join line has ${join[i]}, which no argument of an agent looks like" >&2
			return 2
		fi
	done
}
