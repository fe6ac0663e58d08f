#!/usr/bin/env bash
# Runs `terraform destroy` here after a while, whoever forgot it. The machines
# end themselves without it (max_minutes); this takes away what is left: network,
# placement group, key. It waits in the background as long as this computer is
# on; systemd, where there is one, also keeps it through a logout with lingering.
set -euo pipefail

usage() {
	echo "usage: destroy-in.sh MINUTES [arguments of terraform destroy, as -var-file=mine.tfvars]" >&2
	exit 2
}
[[ ${1:-} =~ ^[1-9][0-9]{0,3}$ ]] || usage
minutes=$1
shift
terraform=$(command -v "${TERRAFORM:-terraform}") || { echo "destroy-in.sh: ${TERRAFORM:-terraform} is missing" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
log=$here/destroy.log
command=("$terraform" "-chdir=$here" destroy -auto-approve -input=false -no-color "$@")

if systemctl --user is-system-running >/dev/null 2>&1; then
	unit=ceiling-destroy-$$
	systemd-run --user --collect --quiet --unit="$unit" --on-active="${minutes}min" \
		-p StandardOutput=append:"$log" -p StandardError=inherit --setenv=PATH="$PATH" \
		${AWS_PROFILE:+--setenv=AWS_PROFILE="$AWS_PROFILE"} "${command[@]}"
	echo "terraform destroy in $minutes minutes, said to $log; not yet: systemctl --user stop $unit.timer"
else
	# shellcheck disable=SC2016 # it is the inner shell that expands
	setsid bash -c 'sleep "$1"; shift; exec "$@"' destroy-in "$((minutes * 60))" "${command[@]}" </dev/null >>"$log" 2>&1 &
	echo "terraform destroy in $minutes minutes, said to $log; not yet: kill $!"
fi
