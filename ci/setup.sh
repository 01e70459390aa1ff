#!/usr/bin/env bash
# Installs what a Debian machine lacks to build and test Annulus: a C toolchain, libfabric for the feature `ofi`, the
# formatter and the linter of Rust, and mdBook, which builds the site of the documentation.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(build-essential)
command -v cmake >/dev/null || missing+=(cmake)
command -v pkg-config >/dev/null || missing+=(pkg-config)
pkg-config --exists 'libfabric >= 1.17' 2>/dev/null || missing+=(libfabric-dev)
if [ "${#missing[@]}" -gt 0 ]; then
    echo "installing ${missing[*]}"
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -q
    $sudo apt-get install -y -q "${missing[@]}"
fi
if ! command -v cargo >/dev/null; then
    echo "Rust 1.95 or later is needed: install it with rustup" >&2
    exit 1
fi
cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
# The site's builder, in the cache. It runs for a second, so it is not optimized: it compiles in a minute instead of several.
version=0.5.4
tools=${XDG_CACHE_HOME:-$HOME/.cache}/annulus/tools
if [ "$("$tools/bin/mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --locked --quiet --force --root "$tools" \
        mdbook --version "$version" --no-default-features --features search
fi
