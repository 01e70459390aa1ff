#!/usr/bin/env bash
# The Python package: its style, its types, its tests, the examples in its docstrings, and its notebooks. The module is a debug
# build, with the features of the workspace, as the other tests have them. Adds the notebooks and the reference to the site.
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
"$venv/bin/pyright" --pythonpath "$venv/bin/python" --project . annulus_data
"$venv/bin/pytest" -q -p no:cacheprovider
"$venv/bin/pytest" -q -p no:cacheprovider --doctest-modules "$staged/annulus_data"
site=$CARGO_TARGET_DIR/site/python
rm -rf "$site"
"$venv/bin/python" ../ci/notebooks.py notebooks "$site/notebooks"
# From the folder of the package as it is installed: here lies one without its module.
cd "$staged"
"$venv/bin/pdoc" --docformat google --no-show-source --output-directory "$site/reference" annulus_data
