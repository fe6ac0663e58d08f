# shellcheck shell=bash
# Sourced by the scripts that place agents: takes the line that `ceiling
# controller` prints apart. The token goes into a variable of its own, to be
# handed on in a file: an argument can be read by every user of a machine.

# read_join_line LINE sets token and the array join, which is the rest of the
# line's arguments. A LINE of - is read from standard input. The token is that of
# CEILING_TOKEN= before the command (controller --show-token), or of the variable
# CEILING_TOKEN, or in the file that the line names.
read_join_line() {
	local line=$1 words i file=
	if [ "$line" = - ]; then
		IFS= read -r line || [ -n "$line" ] || { echo "no join line on standard input" >&2; return 2; }
	fi
	token=${CEILING_TOKEN:-}
	[[ ! $line =~ ^CEILING_TOKEN=([^ ]+)\  ]] || token=${BASH_REMATCH[1]}
	read -ra words <<<"${line#*ceiling*agent }"
	join=()
	for ((i = 0; i < ${#words[@]}; i++)); do
		case ${words[i]} in
		--token | --token=*)
			echo "the join line has the token as an argument, which ps shows: take the line of this ceiling fleet controller" >&2
			return 2
			;;
		--token-file) file=${words[++i]-} ;;
		--token-file=*) file=${words[i]#--token-file=} ;;
		*) join+=("${words[i]}") ;;
		esac
	done
	case " ${join[*]} " in
	*" --join "* | *" --join="*) ;;
	*)
		echo "the join line is the one that ceiling fleet controller prints: ceiling fleet agent --join nats://HOST:4222 --token-file token" >&2
		return 2
		;;
	esac
	if [ -z "$token" ] && [ -n "$file" ] && [ -r "$file" ]; then
		IFS= read -r token <"$file" || [ -n "$token" ] || { echo "$file is empty" >&2; return 2; }
	fi
	if [ -z "$token" ]; then
		echo "no token: there is no file ${file:-token} here, and CEILING_TOKEN is empty; ceiling fleet tokens create -o token" >&2
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
