#!/usr/bin/env bash
# The Python package: its style, its types, its tests and the examples in its docstrings. The module is a debug build, with
# the features of the workspace, as the other tests have them.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo build --workspace --lib --locked
venv=${XDG_CACHE_HOME:-$HOME/.cache}/annulus/python-venv
if ! cmp -s python/requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements.txt
    cp python/requirements.txt "$venv/requirements.txt"
fi
# The package as it is installed, beside the clone.
staged=$CARGO_TARGET_DIR/python
rm -rf "$staged"
mkdir -p "$staged"
cp -r python/annulus_data "$staged/"
cp "$CARGO_TARGET_DIR/debug/lib_internal.so" "$staged/annulus_data/_internal.abi3.so"
export PYTHONPATH=$staged PYTHONDONTWRITEBYTECODE=1

cd python
"$venv/bin/ruff" check --no-cache .
"$venv/bin/ruff" format --no-cache --check .
"$venv/bin/mypy" --cache-dir=/dev/null --python-executable "$venv/bin/python" -p annulus_data
"$venv/bin/pyright" --pythonpath "$venv/bin/python" annulus_data
"$venv/bin/pytest" -p no:cacheprovider
"$venv/bin/pytest" -p no:cacheprovider --doctest-modules "$staged/annulus_data"
