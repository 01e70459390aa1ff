#!/usr/bin/env bash
# Writes the changes since a release as Markdown, for the release's notes: ci/changelog.sh [SINCE], by default the last tag, or all
# commits. The subjects of commits say what changed where ("exchange: bound the laggard queue"), so they are grouped by that.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
echo "## $version"
git log --no-merges --format=%s ${since:+"$since..HEAD"} | awk -F': ' 'NF > 1 { print $1 }' | sort -u | while read -r area; do
    printf '\n### %s\n\n' "$area"
    git log --no-merges --format=%s ${since:+"$since..HEAD"} | awk -v area="$area: " 'index($0, area) == 1 { print "- " substr($0, length(area) + 1) }'
done
