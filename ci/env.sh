# Sourced by the scripts here: build outside the checkout, so that a fresh clone builds on what an earlier one built.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/annulus/target}"
# Plans must not depend on the user's profile.
export ANNULUS_PROFILE=none
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A hash of what the result of a long run depends on: the compiler, the workspace's settings, and the given files and folders.
# A run that a script has seen pass with it need not be repeated.
state_of() {
    {
        rustc --version --verbose
        echo "${RUSTFLAGS:-} ${LOOM_MAX_PREEMPTIONS:-}"
        git ls-files -z --cached --others --exclude-standard Cargo.toml Cargo.lock "$@" | sort -z | xargs -0 sha256sum
    } | sha256sum
}
