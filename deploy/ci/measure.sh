#!/usr/bin/env bash
# Runs ceiling ci with the inputs of the action, and turns its exit code into the step's.
set -euo pipefail

mkdir -p "${CEILING_RECORDS:?}"
args=("${CEILING_FILE:?}" -o "$CEILING_RECORDS")
[ -z "${CEILING_BASE:-}" ] || args+=(--base "$CEILING_BASE")
code=0
ceiling ci "${args[@]}" | tee -a "${GITHUB_STEP_SUMMARY:?}" || code=$?
case $code in
0) result=passed ;;
3) result=failed ;;
4) result=inconclusive ;;
*) result=error ;;
esac
echo "result=$result" >>"${GITHUB_OUTPUT:?}"
if [ "$result" = inconclusive ] && [ "${CEILING_INCONCLUSIVE:-pass}" = pass ]; then
	echo "::warning title=ceiling::inconclusive: this runner cannot tell; the summary says why"
	exit 0
fi
exit "$code"
