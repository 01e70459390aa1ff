#!/usr/bin/env bash
# Formatting, clippy and the documentation, with warnings as errors, and the rules of the house.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo fmt --all --check
ci/house.sh
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo clippy --workspace --all-targets --locked --features annulus-cli/ofi -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --features annulus-cli/ofi
