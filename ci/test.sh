#!/usr/bin/env bash
# All tests: units, properties, stress and fault schedules, the command, the loom models, and those of DataFusion's own
# logic tests whose plans show a repartition.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# The links over libfabric (feature `ofi`), and what the command and the laboratory do with them. Not all tests: loading libfabric
# loads every provider's libraries, and each process begins 0.2 s later. First, because programs of the same names come after.
cargo test --locked -p annulus-roundabout --features ofi
cargo test --workspace --locked --features annulus-lab/ofi --test cyclo_join --test roundabout
cargo test --workspace --locked --features annulus-lab/ofi --test join --test worker -- interrupted fabric
cargo test --workspace --locked
# The examples, which the tests have built; they take no arguments.
git ls-files 'crates/*/examples/*.rs' 'lab/*/examples/*.rs' | while read -r example; do
    echo "example $example"
    "$CARGO_TARGET_DIR/debug/examples/$(basename "$example" .rs)" >/dev/null </dev/null
done
ci/loom.sh
