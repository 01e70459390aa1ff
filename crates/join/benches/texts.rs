//! Joins of names and of random texts within an edit distance, and of names by their 3-grams.
//!
//! `cargo bench -p annulus-join --bench texts [-- ROWS [THREADS]]`, with 100,000 rows a side and two
//! threads by default. Names are drawn from 5,000 first names and 20,000 surnames; one in three has
//! one or two typing errors. Each line shows the seconds to prepare the build side and to find all
//! pairs, the distinct texts compared for each one of the probe side, and the memory of the build
//! side. Some probe rows are first compared with all build rows by a loop over the matrix of
//! distances, or by sets of tokens; its pairs must be the same, and its speed is the last column: the
//! seconds that it would take for all rows.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use annulus_join::{
    EditDistance, JoinError, MOST_PAIRS, PairSink, RequiredPairs, SetMeasure, TextBuild, TextCondition, TextJoin,
    TextPosition, TextStatistics, TokenSimilarity, Tokens,
};
use arrow::array::StringArray;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MORSEL_ROWS: usize = 1 << 15;
/// The pairs of rows that are compared one by one.
const CHECKED_PAIRS: usize = 1 << 21;

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (rows, threads) = (numbers.first().copied().unwrap_or(100_000), numbers.get(1).copied().unwrap_or(2));
    println!(
        "{:24}{:>10}{:>10}{:>12}{:>14}{:>12}{:>14}",
        "", "build s", "probe s", "pairs", "compared/text", "bytes/row", "one by one s"
    );
    let distance = |most| TextCondition::Distance(EditDistance { most });
    let jaccard = TokenSimilarity { tokens: Tokens::Grams(3), measure: SetMeasure::Jaccard, least: 0.7 };
    let (build, probe) = (names(rows, 1), names(rows, 2));
    for most in 1..=3 {
        measure(&format!("names within {most}"), distance(most), &build, &probe, threads);
    }
    measure("names, Jaccard 0.7", TextCondition::Similarity(jaccard), &build, &probe, threads);
    let (build, probe) = (random_texts(rows, 3), random_texts(rows, 4));
    measure("random texts within 2", distance(2), &build, &probe, threads);
}

/// A generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed >> 16) as usize % most
    }

    fn letter(&mut self) -> char {
        char::from(b'a' + self.below(26) as u8)
    }

    fn one<'a>(&mut self, parts: &[&'a str]) -> &'a str {
        parts[self.below(parts.len())]
    }

    fn word(&mut self, most_syllables: usize) -> String {
        let starts = "b d f g h j k l m n p r s t v w ch sh th br cl st tr".split(' ').collect::<Vec<_>>();
        let middles = ["a", "e", "i", "o", "u", "ai", "ea", "y"];
        let syllables = 1 + self.below(most_syllables);
        let mut word: String = (0..syllables).map(|_| self.one(&starts).to_owned() + self.one(&middles)).collect();
        word += self.one(&["", "n", "s", "r", "l", "son", "ton", "man", "er", "ez"]);
        word
    }
}

fn names(rows: usize, seed: u64) -> Vec<String> {
    let mut random = Random(77);
    let firsts: Vec<String> = (0..5000).map(|_| random.word(2)).collect();
    let surnames: Vec<String> = (0..20_000).map(|_| random.word(3)).collect();
    let mut random = Random(seed);
    let name = |_| {
        let first = &firsts[random.below(firsts.len())];
        let mut name: Vec<char> = format!("{first} {}", surnames[random.below(surnames.len())]).chars().collect();
        for _ in 0..[0, 0, 0, 0, 0, 0, 0, 1, 1, 2][random.below(10)] {
            let (place, letter) = (random.below(name.len()), random.letter());
            match random.below(3) {
                0 => name[place] = letter,
                1 => drop(name.remove(place)),
                _ => name.insert(place, letter),
            }
        }
        name.into_iter().collect()
    };
    (0..rows).map(name).collect()
}

fn random_texts(rows: usize, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..rows).map(|_| (0..8 + random.below(13)).map(|_| random.letter()).collect()).collect()
}

fn measure(name: &str, condition: TextCondition, build: &[String], probe: &[String], threads: usize) {
    let join = TextJoin::new(condition);
    let texts = StringArray::from_iter_values(build);
    let start = Instant::now();
    let prepared = join.prepare_build(&texts, None, threads).expect("texts");
    let build_s = start.elapsed().as_secs_f64();
    let (pairs, one_by_one_s) = one_by_one(&condition, build, probe);
    let checked = (CHECKED_PAIRS / build.len().max(1)).min(probe.len());
    assert_eq!(run(&join, &prepared, &probe[..checked], 1).0, pairs, "{name}");
    let start = Instant::now();
    let (pairs, statistics) = run(&join, &prepared, probe, threads);
    let probe_s = start.elapsed().as_secs_f64();
    println!(
        "{name:24}{build_s:>10.2}{probe_s:>10.2}{pairs:>12}{:>14.1}{:>12.1}{one_by_one_s:>14.0}",
        statistics.comparisons as f64 / statistics.texts.max(1) as f64,
        prepared.memory_bytes() as f64 / build.len() as f64,
    );
}

/// Returns the number of all pairs.
fn run(join: &TextJoin, build: &TextBuild, probe: &[String], threads: usize) -> (u64, TextStatistics) {
    let morsels: Vec<StringArray> = probe.chunks(MORSEL_ROWS).map(StringArray::from_iter_values).collect();
    let (next, all) = (AtomicUsize::new(0), Mutex::new((0, TextStatistics::default())));
    let work = || {
        while let Some(morsel) = morsels.get(next.fetch_add(1, Relaxed)) {
            let fragment = join.prepare_probe(morsel, None).expect("texts");
            let (mut position, mut count) = (TextPosition::default(), Count(0));
            while !position.is_end() {
                let most = MOST_PAIRS as u64;
                let found = join.probe_some(build, &fragment, &mut position, RequiredPairs::All, most, &mut count);
                found.expect("pairs");
            }
            let mut all = all.lock().expect("no thread has panicked");
            let statistics = position.statistics();
            all.0 += count.0;
            all.1.texts += statistics.texts;
            all.1.comparisons += statistics.comparisons;
            all.1.matches += statistics.matches;
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().expect("no thread has panicked")
}

struct Count(u64);

impl PairSink for Count {
    fn pairs(&mut self, build: &[u32], _probe: &[u32]) -> Result<(), JoinError> {
        self.0 += build.len() as u64;
        Ok(())
    }
}

/// Compares some rows of the probe side with all of the build side. Returns the number of their pairs,
/// and the seconds that all rows would take.
fn one_by_one(condition: &TextCondition, build: &[String], probe: &[String]) -> (u64, f64) {
    let probe_rows = (CHECKED_PAIRS / build.len().max(1)).min(probe.len());
    let start = Instant::now();
    let mut pairs = 0;
    for probe in &probe[..probe_rows] {
        pairs += build.iter().filter(|build| is_alike(condition, build, probe)).count() as u64;
    }
    (pairs, start.elapsed().as_secs_f64() * probe.len() as f64 / probe_rows.max(1) as f64)
}

fn is_alike(condition: &TextCondition, left: &str, right: &str) -> bool {
    match condition {
        TextCondition::Distance(EditDistance { most }) => levenshtein(left, right) <= *most as usize,
        TextCondition::Similarity(condition) => {
            let grams = |text: &str| text.chars().collect::<Vec<_>>().windows(3).map(<[char]>::to_vec).collect();
            let (left, right): (HashSet<_>, HashSet<_>) = (grams(left), grams(right));
            let common = left.intersection(&right).count();
            // Texts of fewer than 3 characters do not occur.
            condition.measure.similarity(common, left.len(), right.len()) >= condition.least
        }
    }
}

fn levenshtein(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, left) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &right) in right.iter().enumerate() {
            let change = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
