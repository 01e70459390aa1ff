#!/usr/bin/env bash
# Prints each cycle among the top-level modules of crates, and the lines that make it: CRATE... are
# folders such as crates/dataset. An arrow is a path that begins with `crate::`, or with a `super::`
# that leads to the root. Tests and comments do not count. With --self-test, checks itself.
set -euo pipefail

# Reads the sources of one crate, the root module first.
arrows='
# Removes comments and literals, which may hold anything. Those over several lines do not occur in paths.
function code(line) {
    gsub(/\\./, "", line)
    gsub(/"[^"]*"/, "\"\"", line)
    gsub(/\047[^\047]\047/, "\047\047", line)
    sub(/\/\/.*/, "", line)
    return line
}
# Adds the first names in a list such as `a::b, c::{d, e}`.
function list(names, place,    depth, name, c, i) {
    depth = 0; name = ""
    for (i = 1; i <= length(names); i++) {
        c = substr(names, i, 1)
        if (c == "{") depth++
        if (c == "}") depth--
        if (depth == 0 && c == ",") { arrow(name, place); name = "" } else if (depth == 0) name = name c
    }
    arrow(name, place)
}
# Adds an arrow from the module of this file to that of a path below the root.
function arrow(path, place,    name) {
    gsub(/[ \t]/, "", path)
    name = path
    sub(/[^A-Za-z0-9_].*/, "", name)
    if (name in home) name = home[name]
    if (name in is_module && name != module && !((module, name) in seen)) {
        seen[module, name] = place
        from[++count] = module; to[count] = name
    }
}
# Adds the arrows of what follows a path to the root.
function paths(text, place,    rest, i, depth) {
    while (match(text, root "(\\{|[A-Za-z_])")) {
        rest = substr(text, RSTART + RLENGTH - 1)
        if (substr(rest, 1, 1) == "{") {
            depth = 0
            for (i = 1; i <= length(rest); i++) {
                if (substr(rest, i, 1) == "{") depth++
                if (substr(rest, i, 1) == "}" && --depth == 0) break
            }
            list(substr(rest, 2, i - 2), place)
            rest = substr(rest, i + 1)
        } else {
            match(rest, /^[A-Za-z0-9_]+/)
            arrow(substr(rest, 1, RLENGTH), place)
        }
        text = rest
    }
}
# Notes which module an item of the root comes from, as in `pub use a::{B, C}`.
function reexports(statement,    parts, names, i, n) {
    if (!match(statement, /use [a-z0-9_]+::/)) return
    parts = substr(statement, RSTART + 4, RLENGTH - 6)
    names = substr(statement, RSTART + RLENGTH)
    n = split(names, items, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++) if (parts in is_module && items[i] != "") home[items[i]] = parts
}
# Ends a statement that may span lines.
function flush() {
    if (is_root) reexports(statement); else paths(statement, place)
    statement = ""
}
FNR == 1 {
    if (statement != "") flush()
    name = substr(FILENAME, length(src) + 2)
    is_root = name == "lib.rs" || name == "main.rs"
    depth_of_file = split(name, parts, "/") - (name ~ /(^|\/)mod\.rs$/ ? 1 : 0)
    module = parts[1]; sub(/\.rs$/, "", module)
    supers = ""
    for (i = 0; i < depth_of_file; i++) supers = supers "super::"
    # A module at this depth reaches the root with as many steps.
    root = "(^|[^A-Za-z0-9_:])(crate::|" supers ")"
    in_tests = 0; skips = 0; statement = ""
}
{ line = code($0) }
in_tests { next }
line ~ /#\[cfg\(test\)\]/ { skips = 1; next }
# A module of tests stands at the end of its file.
skips && line ~ /^ *(pub )?mod [a-z0-9_]+ *\{/ { in_tests = 1; next }
skips { if (line ~ /[;}] *$/) skips = 0; next }
is_root && match(line, /^ *(pub(\([a-z]+\))? )?mod [a-z0-9_]+ *;/) {
    name = line; sub(/^.*mod /, "", name); sub(/ *;.*/, "", name)
    is_module[name] = 1
}
{
    if (statement == "") place = FILENAME ":" FNR
    statement = statement " " line
    if (line ~ /;/ || statement !~ /(^|[^a-z_])use /) flush()
}
END {
    if (statement != "") flush()
    for (i = 1; i <= count; i++) reaches[from[i], to[i]] = 1
    for (b in is_module) for (a in is_module) for (c in is_module)
        if ((a, b) in reaches && (b, c) in reaches) reaches[a, c] = 1
    for (i = 1; i <= count; i++) {
        if (!((to[i], from[i]) in reaches)) continue
        # The first module of a cycle, by name, stands for it.
        first = from[i]
        for (a in is_module) if (a < first && (a, from[i]) in reaches && (from[i], a) in reaches) first = a
        lines[first] = lines[first] "\n  " from[i] " -> " to[i] "  " seen[from[i], to[i]]
    }
    for (first in lines) {
        members = first
        for (a in is_module) if (a != first && (a, first) in reaches && (first, a) in reaches) members = members ", " a
        print "cycle in " src ": " members lines[first]
        failed = 1
    }
    exit failed
}'

# Prints the cycles of the crate in a folder.
cycles() {
    local src=$1/src root
    for root in "$src/lib.rs" "$src/main.rs"; do
        [ ! -e "$root" ] || break
    done
    [ -e "$root" ] || { echo "no crate in '$1': expected a folder with src/lib.rs or src/main.rs" >&2; return 2; }
    find "$src" -name '*.rs' ! -path "$root" ! -name tests.rs ! -path '*/tests/*' ! -path "$src/bin/*" -print0 | sort -z |
        xargs -0 awk -v src="$src" "$arrows" "$root"
}

self_test() {
    local folder failed=0
    folder=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -r '$folder'" EXIT
    mkdir -p "$folder/src/b"
    # Writes b/deep.rs, and checks whether there is a cycle with its modules.
    expect() {
        local expected=$1 found
        cat >"$folder/src/b/deep.rs"
        found=$(cycles "$folder" | head -1 || true)
        [ "${found#cycle in "$folder"/src: }" = "$expected" ] || { echo "expected '$expected', found '$found' for:" && cat "$folder/src/b/deep.rs"; failed=1; }
    }
    printf 'mod a;\nmod b;\nmod c;\n\npub use a::{Item, other};\n' >"$folder/src/lib.rs"
    printf 'use crate::c::Leaf;\nuse crate::{\n    b::{self, deep::Deep},\n};\npub struct Item;\n' >"$folder/src/a.rs"
    printf 'mod deep;\nuse crate::c;\n' >"$folder/src/b/mod.rs"
    printf 'pub struct Leaf;\n' >"$folder/src/c.rs"
    expect '' <<<'use crate::{c::Leaf, b::deep}; // crate::a'
    expect '' <<<'use super::a;'
    expect '' <<<$'#[cfg(test)]\nmod tests {\n    use crate::a::Item;\n}'
    expect '' <<<$'#[cfg(test)]\nuse crate::a::Item;'
    expect '' <<<'const TEXT: &str = "crate::a";'
    expect 'a, b' <<<'use crate::a::Item;'
    expect 'a, b' <<<$'use crate::{\n    c::{Leaf},\n    a::Item,\n};'
    expect 'a, b' <<<'use super::super::a::Item;'
    expect 'a, b' <<<'fn f(item: &crate::a::Item) {}'
    expect 'a, b' <<<'use crate::Item;'
    expect 'a, b' <<<$'#[cfg(test)]\nmod tests;\nuse crate::{c, a};'
    [ "$failed" = 0 ] && echo "the check finds the cycles that were planted"
    return "$failed"
}

case ${1-} in
'' | -h | --help)
    echo "usage: ci/cycles.sh CRATE..., or ci/cycles.sh --self-test" >&2
    exit 2
    ;;
--self-test) self_test ;;
*)
    failed=0
    for crate in "$@"; do cycles "${crate%/}" || failed=1; done
    exit "$failed"
    ;;
esac
