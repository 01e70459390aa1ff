#!/usr/bin/env bash
# Prints each function of more than 70 lines in the sources named, or in all: file, line, name and length. Tests do not count.
# With --self-test, checks itself.
set -euo pipefail
cd "$(dirname "$0")/.."

long='
FNR == 1 { name = ""; tests = 0 }
/^#\[cfg\(test\)\]/ { tests = 1 }
tests { next }
# A function begins at its name and ends at the brace with its indent. rustfmt keeps the two alike.
name == "" && match($0, /^ *(pub(\([a-z:]+ ?[a-z_:]*\))? )?(const |async |unsafe |extern "C" )*fn [a-z_0-9]+/) && !/;$/ && !/}$/ {
    indent = match($0, /[^ ]/) - 1
    name = $0; sub(/^.*fn /, "", name); sub(/[^a-z_0-9].*/, "", name)
    start = FNR
    next
}
name != "" && match($0, /[^ ]/) == indent + 1 && (/^ *}$/ || /;$/) {
    if (FNR - start + 1 > 70) print FILENAME ":" start ": " name " has " FNR - start + 1 " lines"
    name = ""
}'

if [ "${1:-}" = --self-test ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    body() { seq "$1" | sed "s/.*/        let _ = 1;/"; }
    { echo "pub fn short() {"; body 68; echo "}"; echo "    pub(crate) async fn long("; echo "    ) {"; body 80; echo "    }"; } >"$folder/a.rs"
    found=$(awk "$long" "$folder/a.rs")
    [ "$found" = "$folder/a.rs:71: long has 83 lines" ] || { echo "found: $found" >&2; exit 1; }
    echo "long functions are found"
    exit
fi
[ $# -gt 0 ] || set -- $(git ls-files 'crates/*/src/*.rs' 'lab/*/src/*.rs' | grep -v '/tests\.rs$')
found=$(awk "$long" "$@")
[ -z "$found" ] || { echo "$found"; exit 1; }
