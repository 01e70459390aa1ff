#!/usr/bin/env bash
# Runs the commands of README.md, docs/ and lab/, or of the files named, in a scratch folder with small inputs of the names used there.
#   ```sh blocks       every line is a command; lines that end in \ go on
#   ```console blocks  lines that begin with "$ " are commands, the others what they print
#   ```sh blocks after a line "<!-- readme: script -->" are run as one script
# What is not run: blocks after a line "<!-- readme: skip REASON -->", and lines that end in "# not run: REASON".
# Of some commands only the program and its options are checked: those that take long or for ever, that need several machines,
# or that have "..." for a part. `ci/readme.sh --self-test` checks that broken commands are found.
set -euo pipefail
source "$(dirname "$0")/env.sh"
root=$PWD

# The commands of a file, one a line.
commands() {
    awk '
        { sub(/^ +/, "") }
        /^<!-- readme: (skip [^ ].*|script )-->$/ { skip = 1; next }
        /^```/ {
            if (kind != "") { kind = ""; skip = 0; next }
            kind = substr($0, 4); if (kind == "") kind = "text"
            next
        }
        kind == "" { if ($0 != "") skip = 0; next }
        skip { next }
        kind == "sh" { line = $0 }
        kind == "console" { if (!more && $0 !~ /^\$ /) next; line = $0; sub(/^\$ /, "", line) }
        kind != "sh" && kind != "console" { next }
        { if (sub(/\\$/, "", line)) { text = text line; more = 1; next } print text line; text = ""; more = 0 }
    ' "$1" | grep -v -e '^ *#' -e '^ *$' -e '# not run: [^ ]' | sed 's/[[:space:]]\{1,\}#.*$//' || true
}

# The scripts of a file, each with a null byte behind it.
scripts() {
    awk '
        /^<!-- readme: script -->$/ { wanted = 1; next }
        /^```sh$/ && wanted { on = 1; next }
        /^```$/ { if (on) printf "%c", 0; on = wanted = 0 }
        on
    ' "$1"
}

# Writes 200 rows of the columns given to a file.
rows() {
    annulus sql "SELECT $2 FROM generate_series(1, 200) AS s (n)" --output "$1" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
}

# Inputs of the names that the documents use.
inputs() {
    mkdir events events-of-june logs lineitem visits flights orders a b
    rows events/part.parquet "n AS id, concat('u', n % 20) AS user, n * 1.5 AS amount"
    rows events-of-june/part.parquet "n AS id, concat('u', n % 20) AS user, n * 1.5 AS amount"
    cp -r events events-of-june
    rows logs/one.csv "concat('h', n % 5) AS host, n % 7 AS day, n AS bytes"
    rows orders.parquet "n AS id, n AS o_orderkey, n % 12 AS day, n * 10 AS o_totalprice"
    rows lineitem/part.parquet "n AS l_orderkey, n % 50 AS l_quantity"
    rows visits/part.parquet "concat('s', n % 3) AS site, n AS visitor"
    rows a/part.parquet "n AS id, n AS t, concat('name', n) AS name"
    rows flights/part.parquet "2012 + n % 2 AS year, n % 12 + 1 AS month, n AS time, n % 60 AS delay"
    rows customers.csv "n AS id, concat('00', n) AS zip"
    cp a/part.parquet b/
    cp orders.parquet orders/
    printf 'id,day\n1,2\n' >orders.csv
    echo "SELECT 1 AS one;" >report.sql
}

# Whether a command is only to be resolved.
long() {
    case "$1" in
    *...* | "annulus-lab bench "* | "annulus-lab reproduce "* | *"://"*) ;;
    *) return 1 ;;
    esac
}

# Whether cargo knows which program "cargo run" means here. It is not built again: the compiler refuses.
resolves() {
    local log
    log=$(cd "$root" && RUSTC_WRAPPER=$work/no-rustc CARGO_TARGET_DIR=$work/target $1 -- --version 2>&1) || true
    grep -q "could not compile" <<<"$log" || { echo "$log"; return 1; }
}

# Runs one command as it stands, or small.
run() {
    local command=$1 output
    case "$command" in
    "cargo run --release -- "*)
        resolves "${command%% -- *}" || return 1
        run "annulus ${command#cargo run --release -- }"
        ;;
    "cargo install "* | "cargo build "* | "cargo add "* | "git clone "* | "cd "*) ;;
    "cargo run --release -p annulus-lab -- "*)
        resolves "${command%% -- *}" || return 1
        run "annulus-lab ${command#*-- }"
        ;;
    "ci/"* | "bench/"* | "lab/"* | "sudo bench/"* | "sudo ci/"*)
        local script=${command#sudo }
        script=$root/${script%% *}
        [ -x "$script" ] || { echo "no script '$script'"; return 1; }
        ! head -1 "$script" | grep -q bash || bash -n "$script"
        ;;
    "annulus demo"*) eval "$command --rows 20000" && rm -rf annulus-demo ;;
    "annulus-lab tpch"*)
        command=$(sed -E 's/ --(scale|iterations|queries) [^ ]+//g' <<<"$command")
        eval "$command --scale 0.01 --iterations 1 --queries 1,6 --data tpch"
        ;;
    "annulus-lab clickbench"*)
        command=$(sed -E 's/ --(rows|iterations|queries|queries-from) [^ ]+//g' <<<"$command")
        [ -f queries.sql ] || "$root/lab/clickbench/queries" queries.sql
        eval "$command --rows 2000 --iterations 1 --queries 1,6 --queries-from queries.sql --cache clickbench"
        ;;
    "annulus "* | "annulus-lab "* | "echo "*)
        if long "$command"; then
            while read -r part; do eval "$part --help" || return 1; done <<<"${command// && /$'\n'}"
        else
            output=$(sed -n 's/.*--output \([^ ]*\).*/\1/p' <<<"$command")
            [ -z "$output" ] || [[ "$command" == *" --append"* ]] || rm -rf -- "${work:?}/$output"
            eval "$command"
        fi
        ;;
    *) echo "unknown program: add it to $0, or mark the line with '# not run: REASON'"; return 1 ;;
    esac
}

check() {
    local file=$1 command log failed=0 count=0
    while IFS= read -r command; do
        count=$((count + 1))
        if ! log=$(cd "$work" && run "$command" </dev/null 2>&1); then
            echo "$file: this command failed: $command" >&2
            echo "$log" | tail -5 >&2
            failed=1
        fi
    done < <(commands "$file")
    while IFS= read -r -d '' command; do
        count=$((count + 1))
        rm -rf "$work/script" && mkdir "$work/script"
        if ! (cd "$work/script" && bash -euo pipefail -c "trap 'kill \$(jobs -p) 2>&- || true; wait' EXIT; $command") </dev/null >"$work/log" 2>&1; then
            echo "$file: a script failed: ${command%%$'\n'*} ..." >&2
            tail -5 "$work/log" >&2
            failed=1
        fi
    done < <(scripts "$file")
    echo "$file: $count commands"
    return "$failed"
}

# A file with one command, which must pass or fail; or with a script.
expect() {
    local wanted=$1 command=$2 marker=${3:-} got=passes
    printf '%s\n```sh\n%s\n```\n' "$marker" "$command" >"$work/one.md"
    (check "$work/one.md") >"$work/said" 2>&1 || got=fails
    [ "$got" = "$wanted" ] || { echo "'$command' $got" >&2; cat "$work/said" >&2; exit 1; }
}

self_test() {
    expect passes "annulus partition events/ --by user --into 4 --output parts     # a comment"
    expect passes "annulus-lab bench repartition"
    expect passes "annulus nothing   # not run: there is no such command"
    expect passes "ci/test.sh        # all tests"
    expect fails "annulus partition events/ --by nobody --into 4 --output parts"
    expect fails "annulus partition events/ --by user --into 4 --outptu parts"
    expect fails "annulus-lab bench repartiton"
    expect fails "annulus-lab bench join --rwos 20M"
    expect fails "cargo run --release -- dmeo"
    # As it was when two packages had programs and none was the default.
    (
        root=$work/two
        mkdir -p "$root"/{one,two}/src
        printf '[workspace]\nresolver = "3"\nmembers = ["one", "two"]\n' >"$root/Cargo.toml"
        for package in one two; do
            printf '[package]\nname = "%s"\nedition = "2024"\n' "$package" >"$root/$package/Cargo.toml"
            echo 'fn main() {}' >"$root/$package/src/main.rs"
        done
        expect fails "cargo run --release -- demo"
    )
    expect fails "ci/tset.sh"
    expect fails "annuls sql"
    expect passes $'sleep 1000 &\nannulus sql "SELECT 1"' "<!-- readme: script -->"
    expect passes $'sleep 1000 &\nkill $(jobs -p)' "<!-- readme: script -->"
    expect fails $'sleep 1000 &\nannulus sql "SELECT one"\necho' "<!-- readme: script -->"
    # A copy of the README with one of its own commands broken.
    sed -E '0,/^(\$ )?annulus [a-z]+/s//& --no-such-option/' "$root/README.md" >"$work/README.md"
    ! (check "$work/README.md") >"$work/log" 2>&1 || { echo "a broken README passed" >&2; exit 1; }
    echo "broken commands are found"
}

# With the features of all packages, as the tests have them, so that nothing else is built again.
cargo build --locked -q --workspace --bin annulus --bin annulus-lab
PATH=$CARGO_TARGET_DIR/debug:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/no-rustc" <<'WRAPPER'
#!/bin/sh
case "$*" in *-vV* | *"--crate-name ___"*) exec "$@" ;; *) exit 1 ;; esac
WRAPPER
chmod +x "$work/no-rustc"
(cd "$work" && inputs)
if [ "${1:-}" = --self-test ]; then
    self_test
    exit
fi
[ $# -gt 0 ] || set -- README.md $(find docs lab -name '*.md' 2>/dev/null | sort)
failed=0
for file; do
    check "$root/$file" || failed=1
done
exit "$failed"
