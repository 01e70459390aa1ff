#!/usr/bin/env bash
# All tests: units, properties, stress and fault schedules, the command, the links over libfabric, the loom models, and those of
# DataFusion's own logic tests whose plans show a repartition. Links and models are not tested again while their sources stay.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# First, because programs of the same names come after.
ci/fabric.sh
cargo test --workspace --locked
# The examples, which the tests have built; they take no arguments.
git ls-files 'crates/*/examples/*.rs' 'lab/*/examples/*.rs' | while read -r example; do
    echo "example $example"
    "$CARGO_TARGET_DIR/debug/examples/$(basename "$example" .rs)" >/dev/null </dev/null
done
ci/loom.sh
