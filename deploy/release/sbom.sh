#!/usr/bin/env bash
# Writes the bill of materials of a program, CycloneDX, as its build information has it:
# sbom.sh PROGRAM OUTPUT
set -euo pipefail
bin=$(cd "$(dirname "$0")/../.." && pwd)/bin
[ -x "$bin/cyclonedx-gomod" ] || GOBIN=$bin go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
"$bin/cyclonedx-gomod" bin -json -noserial -output "$2" "$1" 2>/dev/null
