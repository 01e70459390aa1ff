#!/usr/bin/env bash
# All tests: units, properties, stress and fault schedules, the command, the loom models, and those of DataFusion's own
# logic tests whose plans show a repartition.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo test --workspace --locked
ci/loom.sh
