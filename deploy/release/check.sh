#!/usr/bin/env bash
# Builds a release as a snapshot and uses it: make release-check. It needs root on Debian, and takes
# about ten minutes of two cores, most of them for goreleaser itself and for the other architecture.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf '== %s\n' "$*"; }
need() { # command package
	command -v "$1" >/dev/null || RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}
need bwrap bubblewrap
need debootstrap debootstrap

say "goreleaser"
goreleaser=$PWD/bin/goreleaser
# The last version that builds with the Go of go.mod, from what the module proxy serves.
[ -x "$goreleaser" ] || CGO_ENABLED=0 GOBIN=$PWD/bin go install -ldflags '-s -w' github.com/goreleaser/goreleaser/v2@v2.16.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commit=$(git log -1 --format=%h)
# A clone has what is committed and nothing else. goreleaser reads the commit only where there is a
# remote with an owner and a name.
git clone -q . "$work/source"
cd "$work/source"
git remote set-url origin https://github.com/ceiling/ceiling
"$goreleaser" release --snapshot --clean --parallelism "$(nproc)"

say "the same commit gives the same files"
cp dist/checksums.txt "$work/first"
"$goreleaser" release --snapshot --clean --parallelism "$(nproc)" --skip=sbom >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -v 'cdx.json' "$work/first" | diff - <(grep -v 'cdx.json' dist/checksums.txt)

# use runs a shell in a root of its own, without a network but the loopback, and measures a server of
# its own there until there is a verdict.
# shellcheck disable=SC2016 # the shell in there expands it
use='set -eu
ip link set lo up 2>/dev/null || true
ceiling version
ceiling serve nethttp --addr 127.0.0.1:8099 >/tmp/server.log & server=$!
trap "kill $server" EXIT
for i in $(seq 100); do grep -q "serves on" /tmp/server.log && break; sleep 0.1; done
ceiling run -d 2s http://127.0.0.1:8099/read'

say "the package, installed in a clean root"
root=$work/root
debootstrap --variant=minbase --include=iproute2 bookworm "$root" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
arch=$(dpkg --print-architecture)
cp dist/ceiling_*_"$arch".deb dist/ceiling-lab_*_"$arch".deb "$root/tmp/"
chroot "$root" sh -c 'dpkg -i /tmp/ceiling_*.deb /tmp/ceiling-lab_*.deb'
# shellcheck disable=SC2016 # the same
unshare --net --pid --fork --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" env HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "$2"' \
	- "$root" "$use" | tee "$work/deb.txt"
grep -q '^bottleneck ' "$work/deb.txt"
grep -q "$commit" "$work/deb.txt"
chroot "$root" sh -c 'test -s /usr/share/man/man1/ceiling-run.1.gz && test -s /usr/share/bash-completion/completions/ceiling &&
	test -s /usr/lib/systemd/system/ceiling-agent.service && ceiling-lab --help >/dev/null && dpkg -r ceiling-lab ceiling &&
	! test -e /usr/bin/ceiling'

say "the image, under bubblewrap"
deploy/release/images.sh
mkdir -p "$work/image"
tar xf "dist/ceiling_image_$(dpkg --print-architecture).tar" -C "$work" manifest.json
layer=$(grep -o '[0-9a-f]*\.tar\.gz' "$work/manifest.json")
tar xOf "dist/ceiling_image_$(dpkg --print-architecture).tar" "$layer" | tar xz -C "$work/image"
chmod 755 "$work" "$work/image"
inside() { bwrap --bind "$work/image" / --proc /proc --dev /dev --unshare-all --uid 65532 --gid 65532 --clearenv --setenv HOME /tmp "$@"; }
inside /ceiling version
inside /ceiling demo -d 300ms >"$work/image.txt" 2>&1 || { cat "$work/image.txt"; exit 1; }
grep -q '^nethttp ' "$work/image.txt"

say "done"
ls -l dist/*.{tar.gz,deb,rpm,apk,tar,txt}
