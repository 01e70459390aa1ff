#!/usr/bin/env bash
# All tests: units, properties, stress and fault schedules, the command, the loom models, and those of DataFusion's own
# logic tests whose plans show a repartition.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# With the links over libfabric (feature `ofi`): these programs have all that the others have, so they are built once. What
# is compiled without the feature is the roundabout's list of links, which its own tests cover, and what the lint compiles.
cargo test --workspace --locked --features annulus-lab/ofi
cargo test --locked -p annulus-roundabout
# The examples, which the tests have built; they take no arguments.
git ls-files 'crates/*/examples/*.rs' 'lab/*/examples/*.rs' | while read -r example; do
    echo "example $example"
    "$CARGO_TARGET_DIR/debug/examples/$(basename "$example" .rs)" >/dev/null </dev/null
done
ci/loom.sh
