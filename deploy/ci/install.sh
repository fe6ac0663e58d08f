#!/usr/bin/env bash
# Puts ceiling into PATH for the steps that follow: the one that is there, a release whose checksum is
# right, or a build of this action's own revision.
set -euo pipefail

if command -v ceiling >/dev/null; then
	ceiling --version
	exit 0
fi
bin=${RUNNER_TEMP:?}/ceiling-bin
mkdir -p "$bin"
if [ -n "${CEILING_VERSION:-}" ]; then
	arch=$(uname -m)
	case $arch in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
	from=${GITHUB_SERVER_URL:-https://github.com}/${GITHUB_ACTION_REPOSITORY:?}/releases/download/$CEILING_VERSION
	file=ceiling_${CEILING_VERSION#v}_linux_$arch.tar.gz
	cd "$bin"
	curl -fsSLO --retry 3 "$from/$file"
	curl -fsSLO --retry 3 "$from/checksums.txt"
	grep -F " $file" checksums.txt | sha256sum -c -
	tar xzf "$file"
else
	(cd "${GITHUB_ACTION_PATH:?}" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/" ./cmd/ceiling)
fi
echo "$bin" >>"${GITHUB_PATH:?}"
"$bin/ceiling" --version
