#!/usr/bin/env bash
# Runs the models of every lock-free protocol under loom: the ring and the reserved-range path of the exchange, the claimed
# ranges, the free list and the lock-free manager of the pages. They must pass; and with each memory ordering of these
# protocols weakened in turn (the order.rs beside each), at least one of them must fail.
# LOOM_MAX_PREEMPTIONS overrides the models' own bounds.
set -euo pipefail
source "$(dirname "$0")/env.sh"

export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/loom"
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
exchange=crates/exchange
pages=crates/pages

# The paths of a crate's test programs, one a line: its own, then those named.
build() {
    local log
    log=$(cargo test --locked --profile loom --lib --no-run "$@" 2>&1) || { echo "$log" >&2; exit 1; }
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$log"
}
mapfile -t programs < <(build -p annulus-exchange --test loom_reserve --test loom_ring; build -p annulus-pages)
[ "${#programs[@]}" = 4 ] || { echo "the models did not build" >&2; exit 1; }

# The models of a program, one a line: "program model".
models() {
    local program=$1 filter=${2:-}
    "$program" $filter --list 2>/dev/null | sed -n "s|\(.*\): test\$|$program \1|p"
}
reserve=$(models "${programs[0]}" loom_models; models "${programs[1]}")
ring=$(models "${programs[2]}")
ranges=$(models "${programs[3]}" ranges::loom_models)
chain=$(models "${programs[3]}" manager::chain_models)
[ -n "$reserve" ] && [ -n "$ring" ] && [ -n "$ranges" ] && [ -n "$chain" ] || { echo "found no models" >&2; exit 1; }

missed=0

# Without a weakening every model passes.
while read -r program model; do
    SECONDS=0
    if "$program" --exact "$model" >/dev/null 2>&1; then
        echo "passed $model (${SECONDS} s)"
    else
        echo "FAILED $model"
        missed=1
    fi
done <<<"$reserve"$'\n'"$ring"$'\n'"$ranges"$'\n'"$chain"

# One process a model: loom may abort when a model fails. `timeout` is for models that run longer when weakened; running
# on is not noticing.
caught_by() {
    local ordering=$1 program model status
    while read -r program model; do
        status=0
        ANNULUS_WEAKEN=$ordering timeout 60 "$program" --exact "$model" >/dev/null 2>&1 || status=$?
        if [ "$status" != 0 ] && [ "$status" != 124 ]; then
            echo "${model##*::}"
            return
        fi
    done
}

# What no model can notice, and why: loom lets every SeqCst fence synchronise with all later ones, which is more than the
# language promises, so the fences around the ring's sweep hide what this Release is for (ring/PROTOCOL.md, "Memory
# ordering").
hidden=" sweep_give "

# Each name in a file of orderings, and which of the models given notices its absence.
weaken() {
    local names name model
    names=$(sed -n -e 's/^    \([a-z_]*\) = \(Release\|Acquire\|AcqRel\);$/\1/p' -e 's/^    \(fence_[a-z_]*\);$/\1/p' "$1")
    [ -n "$names" ] || { echo "found no orderings in $1" >&2; exit 1; }
    for name in $names; do
        model=$(caught_by "$name" <<<"$2" 2>/dev/null)
        if [ -n "$model" ]; then
            echo "weakened $name: noticed by $model"
        elif [[ $hidden == *" $name "* ]]; then
            echo "weakened $name: hidden by loom"
        else
            echo "weakened $name: NOT NOTICED BY ANY MODEL"
            missed=1
        fi
    done
}
weaken "$exchange/src/reserve/order.rs" "$reserve"
weaken "$exchange/src/ring/order.rs" "$ring"
weaken "$pages/src/ranges/order.rs" "$ranges"
weaken "$pages/src/memory/order.rs" "$ranges"
weaken "$pages/src/manager/order.rs" "$chain"
exit "$missed"
