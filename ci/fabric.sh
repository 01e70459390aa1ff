#!/usr/bin/env bash
# Tests the links over libfabric (feature `ofi`), and what the command and the laboratory do with them. Not all tests: loading
# libfabric loads every provider's libraries, and each process begins 0.2 s later. A state of the sources below that has passed
# is not tested again, except with --again.
set -euo pipefail
source "$(dirname "$0")/env.sh"

passed=$CARGO_TARGET_DIR/fabric-passed
state=$(state_of ci/fabric.sh crates/{sync,roundabout,cyclo,distributed} crates/cli/{Cargo.toml,src/commands/{join,worker},tests} \
    lab/{bench,command}/{Cargo.toml,src} lab/command/tests/*.rs)
if [ "${1:-}" != --again ] && grep -qsxF "$state" "$passed"; then
    echo "the links over libfabric passed with these sources: --again tests them once more"
    exit
fi
cargo test --locked -p annulus-roundabout --features ofi
cargo test --workspace --locked --features annulus-lab/ofi --test cyclo_join --test roundabout
cargo test --workspace --locked --features annulus-lab/ofi --test join --test worker -- interrupted fabric
echo "$state" >>"$passed"
