//! Joins of texts, compared with joins pair by pair.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use annulus_join::{
    EditDistance, JoinError, PairSink, RequiredPairs, SetMeasure, Side, TextBuild, TextCondition, TextJoin,
    TextPosition, TokenSimilarity, Tokens,
};
use arrow::{
    array::{ArrayRef, Int32Array, StringArray},
    compute::cast,
    datatypes::DataType,
};
use proptest::{prelude::*, test_runner::TestCaseResult};

/// Receives pairs, and checks that they come in slices of the right size.
#[derive(Default)]
struct Pairs {
    pairs: Vec<(u32, u32)>,
    /// The number of looks after which the join ends.
    checks: Cell<Option<u32>>,
    done: HashSet<u32>,
}

impl PairSink for Pairs {
    fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
        assert!(build.len() == probe.len() && (1..=annulus_join::MOST_PAIRS).contains(&build.len()));
        self.pairs.extend(build.iter().copied().zip(probe.iter().copied()));
        Ok(())
    }

    fn is_done(&self, side: Side, row: u32) -> bool {
        side == Side::Right && self.done.contains(&row)
    }

    fn check(&self) -> Result<(), JoinError> {
        match self.checks.get() {
            Some(0) => Err(JoinError::Cancelled),
            left => {
                self.checks.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

/// The texts of a side, and the hashes of their keys.
#[derive(Clone, Debug)]
struct Texts {
    texts: Vec<Option<String>>,
    keys: Option<Vec<u64>>,
}

/// A row: a word to start from, edits of it, whether it is null, and a key.
type Row = (usize, Vec<(u8, usize, usize)>, u8, u64);

/// Random texts: `words` with a few edits each, in an alphabet.
fn texts(words: &[String], alphabet: &[char], rows: &[Row], with_keys: bool) -> Texts {
    let text = |row: &Row| {
        let mut text: Vec<char> = words[row.0 % words.len()].chars().collect();
        for &(edit, place, letter) in &row.1 {
            let (place, letter) = (place % (text.len() + 1), alphabet[letter % alphabet.len()]);
            match edit % 3 {
                0 => text.insert(place, letter),
                1 if place < text.len() => drop(text.remove(place)),
                _ if place < text.len() => text[place] = letter,
                _ => {}
            }
        }
        (row.2 != 0).then(|| text.into_iter().collect())
    };
    Texts { texts: rows.iter().map(text).collect(), keys: with_keys.then(|| rows.iter().map(|row| row.3).collect()) }
}

fn alphabet() -> impl Strategy<Value = Vec<char>> {
    let latin = |letters: usize| ('a'..='z').take(letters).collect::<Vec<_>>();
    let others = "aé\u{301}ß日本語𝄞😀 \u{2003}zñ\u{0}€\u{10FFFF}";
    let many = (0x4E00..0x4F80).filter_map(char::from_u32).collect::<Vec<_>>();
    prop_oneof![
        (2_usize..=26).prop_map(latin),
        Just(others.chars().collect::<Vec<_>>()),
        Just("ab cd ".chars().collect::<Vec<_>>()),
        Just(many)
    ]
}

/// Two sides that share words.
fn sides(most_rows: usize) -> impl Strategy<Value = (Texts, Texts)> {
    let lengths = prop_oneof![4 => 0_usize..=24, 1 => 0_usize..=80, 1 => 60_usize..=80];
    let words = move |alphabet: Vec<char>| {
        let letters = Just(alphabet.clone());
        let word = lengths.clone().prop_flat_map(|length| prop::collection::vec(any::<usize>(), length));
        let word = word.prop_map(move |letters| {
            letters.into_iter().map(|letter| alphabet[letter % alphabet.len()]).collect::<String>()
        });
        (letters, prop::collection::vec(word, 1..12))
    };
    let edits = prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 0..5);
    let row = (any::<usize>(), edits, 0_u8..12, prop_oneof![3 => Just(7_u64), 1 => 0_u64..4]);
    let rows = move || prop::collection::vec(row.clone(), 0..most_rows);
    let parts = (alphabet().prop_flat_map(words), rows(), rows(), prop_oneof![2 => Just(false), 1 => Just(true)]);
    parts.prop_map(|((alphabet, words), build, probe, keys)| {
        (texts(&words, &alphabet, &build, keys), texts(&words, &alphabet, &probe, keys))
    })
}

fn levenshtein(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in b.iter().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn tokens(tokens: Tokens, text: &str) -> HashSet<String> {
    let characters: Vec<char> = text.chars().collect();
    match tokens {
        Tokens::Words => text.split_whitespace().map(str::to_owned).collect(),
        Tokens::Grams(_) if text.is_empty() => HashSet::new(),
        Tokens::Grams(length) if characters.len() < length => [text.to_owned()].into(),
        Tokens::Grams(length) => characters.windows(length).map(|gram| gram.iter().collect()).collect(),
    }
}

fn similarity(condition: &TokenSimilarity, a: &str, b: &str) -> f64 {
    let (a, b) = (tokens(condition.tokens, a), tokens(condition.tokens, b));
    let common = a.intersection(&b).count();
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let (common, a, b) = (common as f64, a.len() as f64, b.len() as f64);
    let similarity = match condition.measure {
        SetMeasure::Jaccard => common / (a + b - common),
        SetMeasure::Cosine => common / (a * b).sqrt(),
        SetMeasure::Dice => 2.0 * common / (a + b),
        SetMeasure::Overlap => common / a.min(b),
    };
    if a == 0.0 || b == 0.0 { 0.0 } else { similarity }
}

fn is_alike(condition: &TextCondition, a: &str, b: &str) -> bool {
    match condition {
        TextCondition::Distance(EditDistance { most }) => levenshtein(a, b) <= *most as usize,
        TextCondition::Similarity(condition) => similarity(condition, a, b) >= condition.least,
    }
}

/// Returns all pairs of rows that are alike, by comparing each distinct text with each.
fn expected(condition: &TextCondition, build: &Texts, probe: &Texts) -> BTreeSet<(u32, u32)> {
    let mut known = BTreeMap::new();
    let mut pairs = BTreeSet::new();
    for (b, left) in build.texts.iter().enumerate() {
        for (p, right) in probe.texts.iter().enumerate() {
            let (Some(left), Some(right)) = (left, right) else { continue };
            let keys = build.keys.as_ref().zip(probe.keys.as_ref());
            if keys.is_none_or(|(build, probe)| build[b] == probe[p])
                && *known.entry((left, right)).or_insert_with(|| is_alike(condition, left, right))
            {
                pairs.insert((b as u32, p as u32));
            }
        }
    }
    pairs
}

fn array(texts: &Texts, kind: u8) -> ArrayRef {
    let array: ArrayRef = Arc::new(StringArray::from(texts.texts.clone()));
    cast(&array, &[DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View][kind as usize % 3]).unwrap()
}

/// Returns all pairs that the join gives, which takes no more than `most` at a time.
fn probe_all(
    join: &TextJoin,
    build: &TextBuild,
    (probe, kind): (&Texts, u8),
    required: RequiredPairs,
    most: u64,
) -> Vec<(u32, u32)> {
    let fragment = join.prepare_probe(&array(probe, kind), probe.keys.as_deref()).unwrap();
    let (mut position, mut pairs) = (TextPosition::default(), Pairs::default());
    let mut all = 0;
    while !position.is_end() {
        let found = join.probe_some(build, &fragment, &mut position, required, most, &mut pairs).unwrap();
        assert!(found <= most);
        all += found;
    }
    assert_eq!(all, pairs.pairs.len() as u64);
    pairs.pairs
}

fn check(condition: TextCondition, build: &Texts, probe: &Texts, kind: u8, most: u64) -> TestCaseResult {
    let join = TextJoin::new(condition);
    let threads = 1 + usize::from(kind) % 2;
    let prepared = join.prepare_build(&array(build, kind / 3), build.keys.as_deref(), threads).unwrap();
    let expected = expected(&condition, build, probe);
    for most in [most, u64::MAX] {
        let pairs = probe_all(&join, &prepared, (probe, kind), RequiredPairs::All, most);
        let once: BTreeSet<_> = pairs.iter().copied().collect();
        prop_assert_eq!(once.len(), pairs.len(), "a pair is given twice");
        prop_assert_eq!(&once, &expected);
        let pairs = probe_all(&join, &prepared, (probe, kind), RequiredPairs::OneOfEachProbeRow, most);
        prop_assert!(pairs.iter().all(|pair| expected.contains(pair)));
        let rows: BTreeSet<u32> = pairs.iter().map(|pair| pair.1).collect();
        prop_assert_eq!(rows, expected.iter().map(|pair| pair.1).collect());
        let pairs = probe_all(&join, &prepared, (probe, kind), RequiredPairs::OneOfEachBuildRow, most);
        prop_assert!(pairs.iter().all(|pair| expected.contains(pair)));
        let rows: BTreeSet<u32> = pairs.iter().map(|pair| pair.0).collect();
        prop_assert_eq!(rows, expected.iter().map(|pair| pair.0).collect());
    }
    Ok(())
}

fn measures() -> impl Strategy<Value = SetMeasure> {
    prop::sample::select(vec![SetMeasure::Jaccard, SetMeasure::Cosine, SetMeasure::Dice, SetMeasure::Overlap])
}

fn token_kinds() -> impl Strategy<Value = Tokens> {
    prop_oneof![4 => (1_usize..=4).prop_map(Tokens::Grams), 1 => Just(Tokens::Words)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn texts_within_a_distance((build, probe) in sides(60), most in 0_u32..=6, kind in 0_u8..9, step in 1_u64..9) {
        check(TextCondition::Distance(EditDistance { most }), &build, &probe, kind, step)?;
    }

    #[test]
    fn similar_sets_of_tokens(
        (build, probe) in sides(50),
        (tokens, measure) in (token_kinds(), measures()),
        least in prop_oneof![0.0..1.1, Just(1.0), Just(0.0), Just(f64::NAN)],
        boundary in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
        (kind, step) in (0_u8..9, 1_u64..9),
    ) {
        let mut condition = TokenSimilarity { tokens, measure, least };
        if let Some((b, p)) = boundary
            && !build.texts.is_empty()
            && !probe.texts.is_empty()
            && let (Some(b), Some(p)) = (b.get(&build.texts), p.get(&probe.texts))
        {
            condition.least = similarity(&condition, b, p);
        }
        check(TextCondition::Similarity(condition), &build, &probe, kind, step)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Enough rows that texts are found by their segments.
    #[test]
    fn many_texts_within_a_distance((build, probe) in sides(500), most in 0_u32..=5, kind in 0_u8..9) {
        check(TextCondition::Distance(EditDistance { most }), &build, &probe, kind, 1000)?;
    }

    #[test]
    fn many_similar_sets(
        (build, probe) in sides(300),
        tokens in token_kinds(),
        measure in measures(),
        least in 0.2..1.0,
    ) {
        check(TextCondition::Similarity(TokenSimilarity { tokens, measure, least }), &build, &probe, 0, 1000)?;
    }
}

#[test]
fn errors_name_the_reason() {
    let join = TextJoin::new(TextCondition::Distance(EditDistance { most: 1 }));
    let error = join.prepare_build(&Int32Array::from(vec![1]), None, 1).unwrap_err();
    assert_eq!(error.to_string(), "texts are Int32, which a join of texts cannot compare; cast them to Utf8");
    let texts = StringArray::from(vec!["a", "b"]);
    let error = join.prepare_probe(&texts, Some(&[1])).unwrap_err();
    assert_eq!(error.to_string(), "1 hashes of keys for 2 texts; give one for each row");
    let (build, fragment) = (join.prepare_build(&texts, None, 1), join.prepare_probe(&texts, Some(&[1, 2])));
    let (mut position, mut pairs) = (TextPosition::default(), Pairs::default());
    let all = RequiredPairs::All;
    let found = join.probe_some(&build.unwrap(), &fragment.unwrap(), &mut position, all, 9, &mut pairs);
    assert!(matches!(found, Err(JoinError::Fragment { .. })));
}

/// All texts are compared with all, and none matches.
#[test]
fn a_search_without_pairs_is_cancelled() {
    let side = |letter: char| -> ArrayRef {
        Arc::new(
            (0..3000).map(|row| Some(format!("{row:04}") + &String::from(letter).repeat(60))).collect::<StringArray>(),
        )
    };
    let join = TextJoin::new(TextCondition::Distance(EditDistance { most: 40 }));
    let build = join.prepare_build(&side('a'), None, 2).unwrap();
    let fragment = join.prepare_probe(&side('b'), None).unwrap();
    let mut position = TextPosition::default();
    let mut pairs = Pairs { checks: Cell::new(Some(5)), ..Pairs::default() };
    let result = loop {
        let all = RequiredPairs::All;
        let found = join.probe_some(&build, &fragment, &mut position, all, u64::MAX, &mut pairs);
        if found.is_err() || position.is_end() {
            break found;
        }
    };
    assert!(matches!(result, Err(JoinError::Cancelled)) && pairs.pairs.is_empty());
}

#[test]
fn rows_that_are_done_are_left_out() {
    let texts = StringArray::from(vec!["one", "two", "six"]);
    let join = TextJoin::new(TextCondition::Distance(EditDistance { most: 0 }));
    let build = join.prepare_build(&texts, None, 1).unwrap();
    let fragment = join.prepare_probe(&texts, None).unwrap();
    let mut pairs = Pairs { done: [1].into(), ..Pairs::default() };
    let all = RequiredPairs::All;
    let found = join.probe_some(&build, &fragment, &mut TextPosition::default(), all, u64::MAX, &mut pairs);
    assert_eq!(found.unwrap(), 2);
    pairs.pairs.sort_unstable();
    assert_eq!(pairs.pairs, [(0, 0), (2, 2)]);
}
