#!/usr/bin/env bash
# Makes what the packages have beside the programs, in bin/release: manual pages, completions, units.
# SOURCE_DATE_EPOCH is the commit's time, so that the same commit has the same files.
set -euo pipefail
cd "$(dirname "$0")/../.."

into=bin/release
rm -rf "$into"
mkdir -p "$into"/{man,completions,systemd}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
for program in ceiling ceiling-proxy; do
	go build -tags man -o "$into/$program" "./cmd/$program"
	"$into/$program" man "$into/man"
	for shell in bash zsh fish; do
		"$into/$program" completion "$shell" >"$into/completions/$program.$shell"
	done
	rm "$into/$program"
done
gzip -9n "$into"/man/*.1
# The units name the directories of a build by hand.
for unit in deploy/systemd/*.service; do
	sed 's,/usr/local/,/usr/,' "$unit" >"$into/systemd/$(basename "$unit")"
done
find "$into" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
