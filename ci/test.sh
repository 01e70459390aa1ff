#!/usr/bin/env bash
# All tests: units, properties, stress and fault schedules, the command, the loom models, and those of DataFusion's own
# logic tests whose plans show a repartition.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo test --workspace --locked
# The examples, which the tests have built; they take no arguments.
git ls-files 'crates/*/examples/*.rs' 'lab/*/examples/*.rs' | while read -r example; do
    echo "example $example"
    "$CARGO_TARGET_DIR/debug/examples/$(basename "$example" .rs)" >/dev/null </dev/null
done
# The links over libfabric, with what was built above, and signals beside their libraries.
cargo test --workspace --locked --features annulus-lab/ofi --test ring --test processes --test fabric --test stopped --test cyclo_join
cargo test --workspace --locked --features annulus-lab/ofi --test join --test worker -- interrupted fabric
ci/loom.sh
