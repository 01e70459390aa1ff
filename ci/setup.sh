#!/usr/bin/env bash
# Installs what a Debian machine lacks to build and test Annulus: a C toolchain, libfabric for the feature `ofi`, and Rust's formatter and linter.
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
