#!/usr/bin/env bash
# Writes THIRD-PARTY.txt: the packages that the program `annulus` and the wheel contain, the licence under which each is used, and
# the texts that must accompany a binary. `ci/third-party.sh --check` fails if the file is out of date, or if a package
# of the workspace, the laboratory included, has a licence that is not on the list below. `--self-test` checks that both
# are noticed.
#
# The packages come from `cargo tree`, and the texts from the packages. cargo-about and cargo-deny do the same, but take
# minutes to compile, and recognise texts by similarity. Here a text is left out only if it is the plain text of a
# licence that was not chosen; a file that is not recognised is printed whole.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# Prints the file, or fails. The arguments, if any, are licences to remove from the list.
generate() {
    python3 - "$@" <<'PYTHON'
import json, os, re, subprocess, sys

# In the order of preference where a package offers several. MPL-2.0 is for files that are not changed here.
ALLOWED = """Apache-2.0 MIT 0BSD BSD-2-Clause BSD-3-Clause ISC Zlib BSL-1.0 Unicode-3.0 bzip2-1.0.6 MPL-2.0 CC0-1.0
    Unlicense CDLA-Permissive-2.0""".split()
ALLOWED = [name for name in ALLOWED if name not in sys.argv[1:]]
# The program runs on Linux; other targets would only add packages that it does not contain there.
TARGET = "x86_64-unknown-linux-gnu"
# Phrases that only the text of this licence has.
PHRASES = {
    "Apache-2.0": "apache license version 2.0, january 2004",
    "MIT": "permission is hereby granted, free of charge",
    "BSD": "redistribution and use in source and binary forms",
    "ISC": "permission to use, copy, modify, and",
    "Zlib": "altered source versions must be plainly marked",
    "BSL-1.0": "boost software license",
    "Unicode-3.0": "unicode license v3",
    "MPL-2.0": "mozilla public license version 2.0",
    "CC0-1.0": "cc0 1.0 universal",
    "Unlicense": "this is free and unencumbered software",
}
NAMED = re.compile(r"(licen[sc]e|copying|notice|copyright|unlicense)", re.I)
# Files of packages that have nothing to do with what is compiled.
SKIPPED = {
    "petgraph": ["assets/"],
    # Of xz, only liblzma is compiled, which is under 0BSD.
    "liblzma-sys": ["xz/COPYING.GPL", "xz/COPYING.LGPL", "xz/build-aux/"],
    # GPL-2.0 is the alternative to BSD-3-Clause.
    "zstd-sys": ["zstd/COPYING"],
}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def choose(expression, order=ALLOWED):
    """The licences of an SPDX expression that apply, or None; of alternatives, the first in this order."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def alternatives():
        options = [conjunction()]
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            options.append(conjunction())
        options = [option for option in options if option is not None]
        return min(options, key=lambda option: sorted(map(order.index, option)), default=None)

    def conjunction():
        parts = [single()]
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            parts.append(single())
        return None if None in parts else frozenset().union(*parts)

    def single():
        token = tokens.pop(0)
        if token == "(":
            inner = alternatives()
            tokens.pop(0)
            return inner
        if tokens and tokens[0] == "WITH":
            del tokens[:2]
        return frozenset([token]) if token in order else None

    return alternatives()


def normal(text):
    return " ".join(re.sub(r"[#*=_`-]{3,}", " ", text).split()).lower()


def recognised(text):
    found = {name for name, phrase in PHRASES.items() if phrase in normal(text)}
    if found == {"Apache-2.0"} and len(normal(text)) > 11_000:
        return {"Apache-2.0", "more"}
    return found


def files(package):
    """The files of a package that look like licences or notices."""
    folder, skipped = os.path.dirname(package["manifest_path"]), SKIPPED.get(package["name"], [])
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("tests", "benches", "examples", "docs"))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), folder)
            if NAMED.match(name) and not name.endswith((".rs", ".toml")) and not path.startswith(tuple(skipped)):
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                    text = re.sub(r"[ \t]+$", "", file.read(), flags=re.M).strip("\n\f ")
                # Some files only name the folder that has the texts.
                if len(text) > 100:
                    yield path, text


def wanted(text, path, chosen):
    """Whether a text must accompany the program, apart from the Apache licence itself, which is printed once."""
    if re.search(r"notice", path, re.I):
        return True
    found = recognised(text)
    if found == {"Apache-2.0"}:
        return False
    if len(found) == 1 and os.sep not in path:
        name = next(iter(found))
        return any(one.startswith(name) for one in chosen)
    return True


metadata = json.loads(output("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET))
packages = {(one["name"], one["version"]): one for one in metadata["packages"] if one["source"]}
refused = [one for one in packages.values() if choose(one["license"] or "NONE") is None]
for one in refused:
    print(f"{one['name']} {one['version']}: its licence is not on the list: {one['license']}", file=sys.stderr)
if refused:
    sys.exit(1)

tree = output("cargo", "tree", "--locked", "-p", "annulus-cli", "-p", "annulus-python", "-e", "normal,no-proc-macro", "--target", TARGET,
              "--prefix", "none", "--format", "{p}")
lines = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
contained = sorted({(name, version[1:]) for name, version in lines} & packages.keys())

taken, texts, apache, missing = {}, {}, None, []
by_repository = {}
for key in packages:
    by_repository.setdefault((packages[key]["repository"] or "").removesuffix(".git"), []).append(packages[key])
for key in contained:
    package = packages[key]
    found = list(files(package))
    own = set().union(*(recognised(text) for _, text in found))
    # Of alternatives, the Apache licence, and then one whose text is there.
    order = sorted(ALLOWED, key=lambda name: (name != "Apache-2.0", not own & {name, name.split("-")[0]}))
    chosen = taken[key] = choose(package["license"], order)
    for path, text in found:
        if recognised(text) == {"Apache-2.0"}:
            apache = apache or text
        if wanted(text, path, chosen):
            texts.setdefault(normal(text), (text, []))[1].append(" ".join(key))
    # A package without its text has that of another one from the same repository.
    for name in chosen - {"Apache-2.0"}:
        phrase = "BSD" if name.startswith("BSD") else name
        if phrase not in PHRASES or phrase in own:
            continue
        others = by_repository.get((package["repository"] or "").removesuffix(".git"), [])
        lent = [text for other in others for _, text in files(other) if recognised(text) == {phrase}]
        if lent:
            texts.setdefault(normal(lent[0]), (lent[0], []))[1].append(" ".join(key))
        else:
            missing.append(f"{key[0]} {key[1]}: no text of {name}")
if missing:
    sys.exit("\n".join(missing))

rule = "=" * 100
print(f"""The program `annulus` contains the packages below, each under the licences that its line names. Where a package
offers several, Apache-2.0 is taken if it is one of them.

The standard library of Rust is part of the program, too, under Apache-2.0. Its notices are in the file
share/doc/rust/COPYRIGHT-library.html of the toolchain.

This file is generated: ci/third-party.sh writes it from Cargo.lock and the packages.

{rule}
Packages: name, version, licences taken, repository
{rule}""")
for key in contained:
    package = packages[key]
    print(*key, " and ".join(sorted(taken[key])), package["repository"] or package["homepage"] or "")
print(f"\n{rule}\nApache-2.0\n{rule}\n\n{apache}")
for text, users in sorted(texts.values(), key=lambda one: one[1]):
    users = sorted(set(users))
    shown = ", ".join(users[:8]) + (f" and {len(users) - 8} more" if len(users) > 8 else "")
    print(f"\n{rule}\nThe text of {shown}\n{rule}\n\n{text}")
PYTHON
}

# Fails if a file is not what would be written.
check() {
    generate | diff -q - "$1" >/dev/null || { echo "$1 is out of date: run ci/third-party.sh" >&2; return 1; }
}

self_test() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    sed '/^serde 1/d' THIRD-PARTY.txt >"$work/old"
    ! check "$work/old" 2>"$work/errors" || { echo "a file without a package passed" >&2; exit 1; }
    ! generate MPL-2.0 >"$work/out" 2>"$work/errors" || { echo "a licence that is not allowed passed" >&2; exit 1; }
    grep -q MPL-2.0 "$work/errors" || { cat "$work/errors" >&2; exit 1; }
    echo "old files and licences that are not allowed are found"
}

case "${1:-}" in
--self-test) self_test ;;
--check)
    check THIRD-PARTY.txt
    echo "the licences of all packages are known"
    ;;
*)
    text=$(generate)
    echo "$text" >THIRD-PARTY.txt
    ;;
esac
