#!/usr/bin/env bash
# Builds the site of the documentation with mdBook, and checks the links of its pages: `ci/site.sh [FOLDER]`, by default
# `site` beside the builds. docs/SUMMARY.md lists the pages. `ci/site.sh --self-test` checks that a broken link is found.
set -euo pipefail
source "$(dirname "$0")/env.sh"
tools=${XDG_CACHE_HOME:-$HOME/.cache}/annulus/tools
command -v "$tools/bin/mdbook" >/dev/null || { echo "there is no mdBook in $tools: run ci/setup.sh" >&2; exit 1; }

# Copies the pages of the summary, and the files that they show, to a folder. A link to a file that the site does not
# have, such as source code, becomes its text.
stage() {
    python3 - "$1" <<'PYTHON'
import os, re, shutil, sys

goal = sys.argv[1]
FENCE = re.compile(r"^ *(```|~~~)")
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^\s()]+)\)")
with open("docs/SUMMARY.md", encoding="utf-8") as file:
    summary = file.read()
in_docs = lambda target: os.path.normpath(os.path.join("docs", target))
pages = [in_docs(target) for target in re.findall(r"\]\(([^)]+\.md)\)", summary)]
files = [os.path.join(place, name) for folder in ("docs/images", "docs/schemas")
         for place, _, names in os.walk(folder) for name in names] + ["LICENSE", "THIRD-PARTY.txt"]
here = {*pages, *files}


def kept(page):
    def link(match):
        text, target = match.groups()
        path = target.partition("#")[0]
        if not path or re.match(r"[a-z]+:", path):
            return match.group()
        if os.path.normpath(os.path.join(os.path.dirname(page), path)) not in here:
            return text
        # mdBook makes an index of each README.
        return f"[{text}]({re.sub(r'README[.]md', 'index.md', target)})"

    with open(page, encoding="utf-8") as file:
        parts = re.split(r"(?ms)(^ *```.*?^ *```$)", file.read())
    # Links may go over the end of a line, and code has none.
    return "".join(part if place % 2 else LINK.sub(link, part) for place, part in enumerate(parts))


for page in pages:
    os.makedirs(os.path.join(goal, os.path.dirname(page)), exist_ok=True)
    with open(os.path.join(goal, page), "w", encoding="utf-8") as file:
        file.write(kept(page))
for path in files:
    os.makedirs(os.path.join(goal, os.path.dirname(path)), exist_ok=True)
    shutil.copy(path, os.path.join(goal, path))
shutil.copy("docs/book.toml", goal)
with open(os.path.join(goal, "SUMMARY.md"), "w", encoding="utf-8") as file:
    file.write(re.sub(r"\]\(([^)]+)\)", lambda match: f"]({in_docs(match.group(1))})", summary))
PYTHON
}

# Prints the links of a site that lead nowhere, or to a server, for what a page loads.
check() {
    python3 - "$1" <<'PYTHON'
import os, re, sys
from html.parser import HTMLParser
from urllib.parse import unquote

root, pages, broken = sys.argv[1], {}, 0


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if tag == "a" and name == "href" and value:
                self.links.append(value)
            if (name == "src" or (tag == "link" and name == "href")) and value:
                self.loaded.append(value)


for place, _, names in os.walk(root):
    for name in names:
        if name.endswith(".html") and name not in ("404.html", "toc.html"):
            page = pages[os.path.normpath(os.path.join(place, name))] = Page()
            with open(os.path.join(place, name), encoding="utf-8") as file:
                page.feed(file.read())
for path, page in sorted(pages.items()):
    for target in page.links + page.loaded:
        if re.match(r"[a-z]+:|//", target):
            if target in page.loaded and not target.startswith("data:"):
                print(f"{path}: it loads {target}", file=sys.stderr)
                broken += 1
            continue
        name, _, part = target.partition("#")
        goal = os.path.normpath(os.path.join(os.path.dirname(path), unquote(name))) if name else path
        if os.path.isdir(goal):
            goal = os.path.join(goal, "index.html")
        known = pages[goal].ids if goal in pages else None
        if not os.path.exists(goal) or (part and known is not None and unquote(part) not in known):
            print(f"{path}: {target} leads nowhere", file=sys.stderr)
            broken += 1
print(f"{len(pages)} pages")
sys.exit(broken > 0 or not pages)
PYTHON
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage "$work/pages"
if [ "${1:-}" = --self-test ]; then
    echo '[one](docs/install.md#none)' >>"$work/pages/README.md"
    set -- "$work/site"
    wanted=1
else
    wanted=0
fi
goal=$(realpath -m "${1:-$CARGO_TARGET_DIR/site}")
# mdBook empties the folder first.
if [ -n "$(ls -A "$goal" 2>/dev/null)" ] && [ ! -f "$goal/.nojekyll" ]; then
    echo "'$goal' has other files than a site: name another folder" >&2
    exit 1
fi
"$tools/bin/mdbook" build --dest-dir "$goal" "$work/pages" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
! grep -E "WARN|ERROR" "$work/log" >&2 || exit 1
if check "$goal" >"$work/found" 2>&1; then got=0; else got=1; fi
if [ "$wanted" = 1 ]; then
    [ "$got" = 1 ] && grep -q 'install.html#none' "$work/found" || { echo "a broken link passed" >&2; exit 1; }
    echo "broken links of the site are found"
    exit
fi
[ "$got" = 0 ] || { cat "$work/found" >&2; exit 1; }
echo "$goal/index.html: $(cat "$work/found")"
