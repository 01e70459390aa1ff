# Sourced by the scripts here: build outside the checkout, so that a fresh clone builds on what an earlier one built.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/annulus/target}"
# Plans must not depend on the user's profile.
export ANNULUS_PROFILE=none
cd "$(dirname "${BASH_SOURCE[0]}")/.."
