#!/usr/bin/env bash
# Checks the relative links of all Markdown files: that the target exists, and that an anchor is a heading of it by
# GitHub's rules. Prints each broken link with its file and line. Addresses with a scheme are not visited, and code is
# no link. `ci/links.sh --self-test` checks that broken links are found.
set -euo pipefail
source "$(dirname "$0")/env.sh"

# Prints the broken links of the files named, and fails if there are any.
check() {
    python3 - "$@" <<'PYTHON'
import os, re, sys, unicodedata
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,12}(`{3,}|~{3,})[^\n]*\n(?:.*?\n)??[ >]*\1[`~]*[ \t]*$", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
TARGET = r"(<[^>\n]*>|[^\s()<>]*(?:\([^\s()]*\)[^\s()]*)*)"
INLINE = re.compile(r"\]\(\s*" + TARGET + r"(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:\s*" + TARGET, re.M)
HTML = re.compile(r"<[a-z]+\s[^>]*?(?:href|src)=\"([^\"]*)\"", re.I)
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$|^ {0,3}(\S[^\n]*)\n {0,3}(?:=+|-{2,})[ \t]*$", re.M)
NAMED = re.compile(r"<[a-z]+\s[^>]*?(?:id|name)=\"([^\"]*)\"", re.I)


def blank(match):
    """The same number of lines, without the text."""
    return re.sub(r"[^\n]", " ", match.group())


def read(path):
    with open(path, encoding="utf-8") as file:
        return COMMENT.sub(blank, FENCE.sub(blank, file.read()))


def anchor(heading):
    """GitHub's anchor of a heading: lower case, without punctuation, hyphens for spaces."""
    heading = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", heading)
    heading = re.sub(r"(?<!\w)(\*+|_+)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", heading)
    kept = (c for c in heading.lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
    return "".join(kept).strip().replace(" ", "-")


def anchors(path, known={}):
    """All anchors of a file; equal headings are numbered."""
    if path not in known:
        text, found, counts = read(path), set(), {}
        for match in HEADING.finditer(text):
            name = anchor(match.group(1) or match.group(2) or "")
            count = counts.get(name, 0)
            counts[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
        known[path] = found | set(NAMED.findall(text))
    return known[path]


def fault(path, target):
    """What is wrong with a link of the file at `path`, or nothing."""
    if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.I):
        return None
    name, _, part = target.partition("#")
    name, part = unquote(name), unquote(part)
    if name.startswith("/"):
        goal = name.lstrip("/")
    else:
        goal = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(goal):
        return f"no file '{goal}'"
    if os.path.isdir(goal):
        goal = os.path.join(goal, "README.md")
    if not part or not goal.endswith(".md"):
        return None
    return None if os.path.exists(goal) and part in anchors(goal) else f"no heading '#{part}' in '{goal}'"


broken = 0
for path in sys.argv[1:]:
    text = SPAN.sub(blank, read(path))
    links = [match for pattern in (INLINE, DEFINITION, HTML) for match in pattern.finditer(text)]
    for match in sorted(links, key=lambda match: match.start(1)):
        target = match.group(1).strip("<>")
        reason = fault(path, target)
        if reason:
            line = text.count("\n", 0, match.start(1)) + 1
            print(f"{path}:{line}: {target}: {reason}", file=sys.stderr)
            broken += 1
sys.exit(broken > 0)
PYTHON
}

self_test() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    mkdir docs 'docs/with space'
    cat >other.md <<'MARKDOWN'
# One `code` & two: *three*, [four](docs/)?
## Again
## Again
Below a line
------------
```sh
# no heading
```
<a name="by-name"></a>
MARKDOWN
    cat >docs/README.md <<'MARKDOWN'
# Good
[a](../other.md) [b](../other.md#one-code--two-three-four) [c](../other.md#again-1) [d](#good) [e](/other.md#below-a-line)
[f](../other.md#by-name) [g](with%20space) [h](<with space>) [i](https://example.com/none#none) [j](.) `[code](none.md)`
![image](../other.md "a title") [`k](l)`](../other.md) [x]: <a href="../other.md">m</a>
~~~
[fenced](none.md)
~~~
<!-- [comment](none.md) -->
MARKDOWN
    check docs/README.md other.md || { echo "good links are reported" >&2; exit 1; }
    cat >docs/bad.md <<'MARKDOWN'
# Bad
[a](none.md) and [b](../other.md#again-2)
[c](#good), [d
e](../none.md), ![image](none.svg)
[f](../other.md#no-heading) <a href="none.html">g</a> [h](.#bad)

[reference]: none.md
MARKDOWN
    local expected found
    expected=$(printf 'docs/bad.md:%s\n' 2 2 3 4 4 5 5 5 7)
    found=$(check docs/bad.md 2>&1 | sed -E 's/^([^:]*:[0-9]+).*/\1/') || true
    [ "$found" = "$expected" ] || { printf 'found:\n%s\nexpected:\n%s\n' "$found" "$expected" >&2; exit 1; }
    echo "broken links are found"
}

if [ "${1:-}" = --self-test ]; then
    self_test
    exit
fi
mapfile -t files < <(git ls-files -co --exclude-standard '*.md' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
check "${files[@]}" || exit 1
echo "the links of ${#files[@]} files lead somewhere"
