#!/usr/bin/env bash
# Runs the models of every lock-free protocol under loom: the transports, the pauses and the reserved ranges of the exchange,
# its rivals in the laboratory, the claimed ranges and the free list of the pages, the lock-free manager of the baselines. They
# must pass; and with each memory ordering of these protocols weakened in turn (the order.rs beside each), at least one of them must fail.
# LOOM_MAX_PREEMPTIONS overrides the models' own bounds. What the models say depends on their sources
# alone, so a state of these that has passed is not checked again, except with --again.
set -euo pipefail
source "$(dirname "$0")/env.sh"

export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/loom"
passed=$CARGO_TARGET_DIR/passed
state=$(state_of ci/loom.sh crates/{sync,rows,topology,exchange,pages} lab/{baselines,transports})
if [ "${1:-}" != --again ] && grep -qsxF "$state" "$passed"; then
    echo "the models passed with these sources: --again runs them once more"
    exit
fi
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
exchange=crates/exchange
pages=crates/pages
baselines=lab/baselines
transports=lab/transports

# The paths of the test programs named, one a line: that of the crate first.
build() {
    local log
    log=$(cargo test --locked --profile loom --no-run "$@" 2>&1) || { echo "$log" >&2; exit 1; }
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' <<<"$log"
}
mapfile -t programs < <(
    build -p annulus-exchange --lib --test loom_reserve --test loom_ring --test loom_transport
    build -p annulus-pages --lib
    build -p annulus-baselines --lib
    build -p annulus-transports --test loom_rivals
)
[ "${#programs[@]}" = 7 ] || { echo "the models did not build" >&2; exit 1; }

# The models of a program, one a line: "program model".
models() {
    local program=$1 filter=${2:-}
    "$program" $filter --list 2>/dev/null | sed -n "s|\(.*\): test\$|$program \1|p"
}
reserve=$(models "${programs[0]}" reserve::loom_models; models "${programs[1]}")
queues=$(models "${programs[3]}" queue_)
domains=$(models "${programs[3]}" domains_)
activity=$(models "${programs[0]}" activity::loom_models; models "${programs[0]}" exchange::loom_models)
ring=$(models "${programs[2]}"; models "${programs[0]}" waiting::loom_models)
claims=$(models "${programs[4]}" partition::loom_models)
chain=$(models "${programs[5]}" manager::chain_models)
rivals=$(for kind in barrier paper; do models "${programs[6]}" "${kind}_"; done)
pairs=$(models "${programs[6]}" pairs_)
all=("$reserve" "$queues" "$domains" "$activity" "$ring" "$claims" "$chain" "$rivals" "$pairs")
for models in "${all[@]}"; do
    [ -n "$models" ] || { echo "found no models" >&2; exit 1; }
done

# Without a weakening a model passes.
passes() {
    local program=$1 model=$2
    SECONDS=0
    if "$program" --exact "$model" >/dev/null 2>&1; then
        echo "passed $model (${SECONDS} s)"
    else
        echo "FAILED $model"
    fi
}

# Which of the models given notices that an ordering is weakened. One process a model: loom may abort when a model fails.
# `timeout` is for models that run longer when weakened; running on is not noticing.
weakened() {
    local name=$1 models=$2 program model status
    # Bash would tell each process that aborts.
    exec 2>/dev/null
    while read -r program model; do
        status=0
        ANNULUS_WEAKEN=$name timeout 60 "$program" --exact "$model" >/dev/null 2>&1 || status=$?
        if [ "$status" != 0 ] && [ "$status" != 124 ]; then
            echo "weakened $name: noticed by ${model##*::}"
            return
        fi
    done <<<"$models"
    echo "weakened $name: FAILED, no model notices it"
}

export -f passes weakened

# Checks for each ordering named in a file, with the models given, each ended by a null.
weakenings() {
    local names
    names=$(sed -n -e 's/^    \([a-z_]*\) = \(Release\|Acquire\|AcqRel\);$/\1/p' -e 's/^    \(fence_[a-z_]*\);$/\1/p' "$1")
    [ -n "$names" ] || { echo "found no orderings in $1" >&2; exit 1; }
    noticed "$2" $names
}

# Checks for the orderings named, with the models given.
noticed() {
    local models=$1 name
    shift
    for name in "$@"; do
        printf 'weakened\0%s\0%s\0' "$name" "$models"
    done
}

checks=$(mktemp)
results=$(mktemp)
trap 'rm -f "$checks" "$results"' EXIT
{
    weakenings "$exchange/src/ring/order.rs" "$ring"
    weakenings "$exchange/src/lease/order.rs" "$ring"
    weakenings "$exchange/src/waiting/order.rs" "$ring"
    weakenings "$exchange/src/reserve/order.rs" "$reserve"
    weakenings "$exchange/src/transport/order.rs" "$queues"
    weakenings "$transports/src/order.rs" "$rivals"
    weakenings "$transports/src/paper_ring/order.rs" "$rivals"
    # The same orderings where a consumer has several queues, and those of the ring that a wait and a stop over several need.
    weakenings "$exchange/src/transport/order.rs" "$pairs"
    noticed "$domains" fence_flush fence_wait_data fence_wait_slot fence_tell
    # The fence of a pause has waiting consumers of two kinds on its other side.
    weakenings "$exchange/src/activity/order.rs" "$activity"
    noticed "$reserve" fence_turns_idle
    weakenings "$pages/src/partition/order.rs" "$claims"
    weakenings "$pages/src/memory/order.rs" "$claims"
    weakenings "$baselines/src/manager/order.rs" "$chain"
    while read -r program model; do
        printf 'passes\0%s\0%s\0' "$program" "$model"
    done < <(printf '%s\n' "${all[@]}")
} >"$checks"
# A model is one thread's work.
xargs -0 -n 3 -P "$(nproc)" bash -c '"$@"' check <"$checks" | tee "$results"
! grep -q FAILED "$results"
echo "$state" >>"$passed"
