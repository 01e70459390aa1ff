#!/usr/bin/env bash
# Checks what the documents promise of the tree, where a line of grep can: the width of prose and
# code, which crate depends on which, which words libraries may use, and that public items are used.
# A grep that finds nothing is good news here, so no -e.
set -u
# `found` sets a variable at the end of pipelines.
shopt -s lastpipe
source "$(dirname "$0")/env.sh"

failed=0
# Prints a finding's heading and its lines, if there are any.
found() {
    local heading=$1 lines
    lines=$(cat)
    [ -n "$lines" ] || return 0
    printf '%s\n%s\n\n' "$heading" "$lines" >&2
    failed=1
}
rust=$(git ls-files 'crates/*.rs' 'lab/*.rs' | grep -v '/fuzz/target/')
libraries=$(git ls-files 'crates/*/src/*.rs' 'lab/hits/src/*.rs' 'lab/simulate/src/*.rs' | grep -Ev '^crates/(calibrate|cli|terminal)/')

# Columns are characters: bytes that go on with one do not count.
export LC_ALL=C
git ls-files '*.md' | xargs awk '
    { gsub(/[\200-\277]/, "") }
    FNR == 1 { code = 0 }
    /^ *(```|~~~)/ { code = !code }
    length($0) > (code ? 120 : 100) && !/^ *\|/ && !/^ *!?\[[^]]*\]\([^)]*\)/ {
        print FILENAME ":" FNR ": " length($0) " columns"
    }' | found "prose beyond 100 columns, or code beyond 120:"

echo "$rust" | xargs awk '{ gsub(/[\200-\277]/, "") } length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns" }' |
    found "Rust lines beyond 120 columns:"

# The laboratory compares the product with its rivals; the product does not know it.
laboratory=$(sed -n 's/^name = "\(.*\)"/\1/p' lab/*/Cargo.toml | sort -u | paste -sd'|')
grep -En "^($laboratory)\b" crates/*/Cargo.toml | found "crates of the product that depend on the laboratory:"
grep -rnE "\b(${laboratory//-/_})::" crates --include=*.rs | found "code of the product that names the laboratory:"
grep -n '^annulus-exchange\b.*"transports"' crates/*/Cargo.toml | found "crates of the product that take transports of other crates:"

# One folder a command: it knows its own files and the modules that all share, and those know no command.
git ls-files 'crates/cli/src/commands/*/*.rs' 'lab/command/src/commands/*/*.rs' | while read -r file; do
    own=${file#*/src/commands/}
    grep -nE '\bcommands::|super::super|\bcli::' "$file" | grep -v "commands::${own%%/*}::" | sed "s|^|$file:|"
done | found "commands that name another command:"
git ls-files 'crates/cli/src/*.rs' 'lab/command/src/*.rs' | grep -vE '/(main|lib|cli)\.rs$|/commands/' | xargs grep -nE '\bcommands(::|[;,}])|\bcli::' | grep -vE ':[0-9]+: *//' |
    found "modules of the command line that name a command:"

# The words of the command line belong to the command, which maps fields to flags.
echo "$libraries" | xargs grep -nE '"[^"]*(^|[ "`(])--[a-z][a-z-]+' | grep -vE ':[0-9]+: *//' |
    found "libraries that name a command-line flag:"

# A wait for something that could signal does not sleep. A real delay says so on the line above.
echo "$rust" | xargs awk '
    /thread::sleep\(|time::sleep\(/ && before !~ /A real delay/ { print FILENAME ":" FNR ": " $0 }
    { before = $0 }' | found "sleeps without a comment 'A real delay: ...' above:"

# Public items that nothing but their definition names.
words=$(mktemp)
trap 'rm -f "$words"' EXIT
git ls-files 'crates/*.rs' 'lab/*.rs' '*.md' 'bench/*' | xargs cat | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort | uniq -c |
    awk '$1 == 1 { print $2 }' >"$words"
echo "$libraries" | xargs grep -noE '^ *pub (const |async |unsafe )*(fn|struct|enum|trait|type|const|static) [A-Za-z_][A-Za-z0-9_]*' |
    awk 'NR == FNR { once[$1] = 1; next } $NF in once' "$words" - | found "public items that nothing uses:"

for member in crates/* $(dirname lab/*/Cargo.toml); do
    grep -rqsE '\bunsafe\b *(\{|impl|fn|extern)' "$member/src" || grep -qs 'forbid(unsafe_code)' "$member"/src/{lib,main}.rs ||
        echo "$member"
done | found "crates without unsafe code that do not forbid it:"

[ "$failed" = 0 ] && echo "the house is in order"
exit "$failed"
