#!/usr/bin/env bash
# Formatting, clippy and the documentation, with warnings as errors, and the rules of the house.
set -euo pipefail
source "$(dirname "$0")/env.sh"

cargo fmt --all --check
ci/house.sh
# Links of documents, words, modules that know each other, and functions that are too long; each finds what is planted.
ci/links.sh --self-test
ci/links.sh
ci/site.sh --self-test
ci/site.sh
ci/words.sh --self-test
ci/words.sh
ci/cycles.sh --self-test
for crate in crates/* lab/*/Cargo.toml; do
    ci/cycles.sh "${crate%/Cargo.toml}"
done
ci/functions.sh --self-test
ci/functions.sh
# The licences of what the program contains.
ci/third-party.sh --self-test
ci/third-party.sh --check
# Scripts can be parsed. Those in Python are benchmarks, which a machine without it does not run.
git ls-files bench ci lab/clickbench | while read -r file; do
    case "$file $(head -1 "$file")" in
    *.py\ * | *python3) ! command -v python3 >/dev/null || python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$file" ;;
    *bash) bash -n "$file" ;;
    esac
done
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo clippy --workspace --all-targets --locked --features annulus-lab/ofi -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --features annulus-lab/ofi
