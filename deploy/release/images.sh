#!/usr/bin/env bash
# Makes the container images of what goreleaser has built, dist/ceiling_image_ARCH.tar: docker load -i.
set -euo pipefail
cd "$(dirname "$0")/../.."

(cd internal/tools && CGO_ENABLED=0 go build -o ../../bin/image ./image)
date=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
for arch in amd64 arm64; do
	./bin/image -o "dist/ceiling_image_$arch.tar" -tag ceiling:latest -arch "$arch" -date "$date" \
		dist/ceiling_linux_${arch}*/ceiling dist/ceiling-controller_linux_${arch}*/ceiling-controller
done
