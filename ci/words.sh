#!/usr/bin/env bash
# Checks the words of the tree: no type, variant or function has a name that says less than the glossary's, and no
# document, comment or message has a turn of phrase that readers stumbled over. Prints each with its file and line.
# The tables below are the whole list. Without arguments, checks all files; PATH... are files or folders to check.
# With --self-test, checks itself.
set -euo pipefail
cd "$(dirname "$0")/.."

# Names that types and variants do not have, and the glossary's words.
names='
Begun         a noun for the state
Crowd         Laggard, Concurrency
Ended         RingFailure
Halt          Stop, Cancellation
Kept          Store, Cache
Lane          Producer, Consumer, Direction
Lanes         PartitionWriters
Leaving       Cancellation
Lent          Borrowed..., with a noun
Local         HandleStats, LocalJoin
Lying         FragmentMemory
Met           RevolutionStats, RingAgreement
Place         Partition, Position, Demand
Present       Registration, MemoryBudget
Room          MemoryReservation
Router        PartitionRouter
Stopper       StopHandle
Tools         Context
Turn          Revolution, InputBudget
Visit         BlockPass
Walk          SpilledProbe
Way           Strategy, Variant'

# Adjectives, adverbs and irregular participles that are no names of types: a noun says what the type is.
adjectives='All Alone Any Around Bare Beyond Both Broken Built Busy Chosen Clear Cut Done Extra Fed Found Free Given
    Heard Held Hidden Known Made Only Open Out Own Ready Seen Sent Shown Silent Small Spare Spent Spun Taken Unread
    Unseen What Whole Written'

# Names of one word that end as participles do and may stay. Nouns of the language: Encoding, Ending, Feed, Greeting,
# Heading, Mapping, Meeting, Ring, Seed, Setting, String. Errors that are named for what happened, as in Rust'"'"'s
# libraries (Elapsed, Disconnected): Cancelled. Adjectives of the field: Shared (the
# state that handles share, as in tokio), Unlimited.
participles='Cancelled Encoding Ending Feed Greeting Heading Mapping Meeting Ring Seed Setting Shared String Unlimited'

# Functions whose names are prepositions: from_plan, for_input, find_in, single_host.
prepositions='of|at|on|over|alone|here|within'

# Turns of phrase, as Perl patterns, and what to write.
turns='
\b[Ss]o many\b	the number
\b[Ww]hat (stays|goes around|rotates)\b	stationary relation, rotating relation
\b(relation|side|rows?|input|[Ff]ilters?)\)? (that )?(go|goes|gone|going) around\b	rotate
\b[Ww]hoever\b	the host that, the thread that
\b(host|thread|task|worker|producer|consumer|one) who\b	that
(^|[.:] |\*\*|/ )Who (?!may )[a-z]+s\b	the host that, the thread that
\b(is|are|be|was|were) told\b	who reports it
\bthere is told\b	is described there
\b[Ii]n (its|their) stead\b	for it, instead of it
\b[Bb]ut for\b	except
(?<!there )(?<!There )\b(is|are|was|were|be) no (?!longer\b|more\b|less\b|one\b|other\b|consumer\b|[a-z]+er\b)\w+	is not a, is invalid
//[/!] So (many|much|often|long|far)\b	a noun: Number of ...
//[/!] How (many|much|often|long|far) [^?]*\.$	a noun: Number of ...'

# Prints the violations in files named on standard input.
violations() {
    local files sources name instead pattern
    files=$(cat)
    sources=$(grep -E '^(.*/)?(crates|lab)/[^/]+/src/.*\.rs$' <<<"$files" || true)
    # Prints the matches of a pattern in some files, with what to write.
    search() {
        local found
        found=$(tr '\n' '\0' <<<"${1%$'\n'}" | xargs -0 -r grep -HnoP -- "$2" 2>/dev/null || true)
        [ -z "$found" ] || sed "s|\$|   [$3]|" <<<"$found"
    }
    if [ -n "$sources" ]; then
        local kind='^\s*(pub(\([a-z:_ ]+\))? )?(struct|enum|trait|type|union) \K'
        while read -r name instead; do
            [ -n "$name" ] || continue
            search "$sources" "$kind$name\b" "$instead"
            search "$sources" "^    $name(?=(\(.*\)|\([A-Z].*| \{.*)?,?\$)" "$instead"
        done <<<"$names"
        search "$sources" "$kind(${adjectives//[$' \n']/|})\b" 'a noun'
        search "$sources" "$kind(?!(${participles// /|})\b)[A-Z][a-z]+(ed|ing)\b" 'a noun'
        search "$sources" "\bfn ($prepositions)\b(?=[<(])" 'from_plan, for_input, find_in, single_host'
    fi
    while IFS=$'\t' read -r pattern instead; do
        [ -z "$pattern" ] || search "$files" "$pattern" "$instead"
    done <<<"$turns"
}

self_test() {
    local folder failed=0
    folder=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -r '$folder'" EXIT
    mkdir -p "$folder/crates/a/src"
    # Writes a file and compares the words that are found in it.
    expect() {
        local expected=$1 found
        cat >"$folder/crates/a/src/b.rs"
        found=$(violations <<<"$folder/crates/a/src/b.rs" | sed 's/^[^:]*:\([0-9]*\):\(.*[^ ]\)   \[.*/\1 \2/' | sort | paste -sd';')
        [ "$found" = "$expected" ] || { echo "expected '$expected', found '$found' for:" && cat "$folder/crates/a/src/b.rs"; failed=1; }
    }
    expect '' <<<'pub struct StopHandle; struct Setting; enum Meeting {} fn from_plan() {}'
    expect '1 Met' <<<'pub(in crate::x) struct Met {'
    expect '2     Lent' <<<$'enum FragmentMemory {\n    Lent(Arc<Fragment>),\n}'
    expect '1 Around' <<<'struct Around;'
    expect '1 Sifted' <<<"pub(crate) struct Sifted<'k> {"
    expect '1 Joining' <<<'    trait Joining {'
    expect '1 fn of' <<<'    pub(crate) fn of(spec: &JoinSpec) -> Self {'
    expect '1 fn at' <<<'fn at<T>(place: T) {}'
    expect '' <<<'let at = fn_of(of); // there is no file, and no longer a lock'
    expect '1 is no size' <<<'#[error("this is no size")]'
    expect '1 But for' <<<'// But for one, they wait.'
    expect '1 whoever' <<<'//! Waits for whoever holds it.'
    expect '1 rows go around' <<<'/// The rows go around the ring.'
    expect '1 /// How often the ring runs.' <<<'/// How often the ring runs.'
    expect '' <<<'/// Returns how often the ring runs.'
    [ "$failed" = 0 ] && echo "the check finds the words that were planted"
    return "$failed"
}

if [ "${1:-}" = --self-test ]; then
    self_test
    exit
fi
# This script and the lists of what others wrote have the words themselves.
found=$(git ls-files -co --exclude-standard "${@:-.}" | grep -E '\.(rs|md|py)$|^(ci|bench|lab)/' |
    grep -vE '^ci/words\.sh$|\.(json|parquet|csv|svg|sql|lock|proptest-regressions)$' |
    while read -r file; do [ ! -f "$file" ] || echo "$file"; done | violations | sort -t: -k1,1 -k2,2n)
[ -z "$found" ] || { echo "$found"; exit 1; }
