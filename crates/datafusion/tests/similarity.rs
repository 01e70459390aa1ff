//! Joins of similar texts and vectors against DataFusion's nested loops, which compare all pairs.

use std::{fmt::Write, sync::Arc};

use datafusion::{
    execution::memory_pool::{GreedyMemoryPool, MemoryPool},
    prelude::SessionContext,
};

mod common;
use common::{
    lines,
    queries::{Numbers, error, session},
};

async fn session_with(joins: &str, pool: Option<Arc<dyn MemoryPool>>) -> SessionContext {
    let context = session(3, pool);
    context.sql(&format!("SET annulus.joins = '{joins}'")).await.unwrap().collect().await.unwrap();
    context
}

async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    let mut rows = lines(&context.sql(query).await.expect(query).collect().await.expect(query));
    rows.sort();
    rows
}

fn text(numbers: &mut Numbers) -> String {
    const NAMES: [&str; 8] = ["anna", "anne", "hanna", "Åsa", "jonathan", "jonatan", "bo", ""];
    let mut text = NAMES[numbers.next(8) as usize].to_owned();
    if numbers.next(2) == 0 {
        let _ = write!(text, " {}", NAMES[numbers.next(8) as usize]);
    }
    if numbers.next(3) == 0 && !text.is_empty() {
        text.push(['x', 'y', 'é'][numbers.next(3) as usize]);
    }
    text
}

fn vector(numbers: &mut Numbers) -> String {
    let element =
        |numbers: &mut Numbers| if numbers.next(40) == 0 { "NULL".to_owned() } else { numbers.next(5).to_string() };
    let elements: Vec<String> = (0..3).map(|_| element(numbers)).collect();
    format!("[{}]", elements.join(", "))
}

async fn create(context: &SessionContext, name: &str, seed: u64, count: u64) {
    let numbers = &mut Numbers(seed);
    let columns = "id BIGINT, s VARCHAR, g INT, x DOUBLE, v DOUBLE[]";
    context.sql(&format!("CREATE TABLE {name} ({columns})")).await.unwrap().collect().await.unwrap();
    let mut values = Vec::new();
    for id in 0..count {
        let null = |numbers: &mut Numbers, value: String| if numbers.next(10) == 0 { "NULL".to_owned() } else { value };
        let text = format!("'{}'", text(numbers));
        let (text, vector) = (null(numbers, text), vector(numbers));
        let vector = null(numbers, vector);
        let (g, x) = (numbers.next(3).to_string(), numbers.next(10));
        let g = null(numbers, g);
        values.push(format!("({id}, {text}, {g}, {x}, {vector})"));
    }
    let insert = format!("INSERT INTO {name} VALUES {}", values.join(", "));
    context.sql(&insert).await.expect(&insert).collect().await.unwrap();
}

const CONDITIONS: [&str; 13] = [
    "levenshtein(l.s, r.s) <= 2",
    "levenshtein(r.s, l.s) < 2",
    "1 >= levenshtein(l.s, r.s) AND l.g = r.g",
    "levenshtein(l.s, r.s) <= 3 AND l.g = r.g AND l.x < r.x",
    "levenshtein(l.s || 'a', r.s) <= 2 AND l.id < r.id",
    "ngram_jaccard(l.s, r.s, 2) >= 0.5",
    "ngram_cosine(l.s, r.s, 3) > 0.5 AND l.g = r.g",
    "word_jaccard(l.s, r.s) >= 0.5",
    "word_cosine(l.s, r.s) > 0.7",
    "array_distance(l.v, r.v) <= 1.5",
    "inner_product(l.v, r.v) >= 20 AND l.x <> r.x",
    "cosine_similarity(l.v, r.v) > 0.9",
    "cosine_distance(r.v, l.v) < 0.1",
];

const JOINS: [(&str, &str); 6] = [
    ("l.id, r.id", "l JOIN r ON"),
    ("l.id, r.id", "l LEFT JOIN r ON"),
    ("l.id, r.id", "l RIGHT JOIN r ON"),
    ("l.id, r.id", "l FULL JOIN r ON"),
    ("l.id", "l LEFT SEMI JOIN r ON"),
    ("l.id", "l LEFT ANTI JOIN r ON"),
];

#[tokio::test]
async fn similar_rows_are_those_of_all_pairs() {
    for seed in 0..3 {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(96 << 10));
        let (stock, ours) = (session_with("never", None).await, session_with("always", None).await);
        let small = session_with("always", Some(Arc::clone(&pool))).await;
        for context in [&stock, &ours, &small] {
            create(context, "l", seed, 100 + 40 * seed).await;
            create(context, "r", seed + 100, 150).await;
        }
        for condition in CONDITIONS {
            for (columns, join) in JOINS {
                let query = format!("SELECT {columns} FROM {join} {condition}");
                let expected = rows(&stock, &query).await;
                assert_eq!(rows(&ours, &query).await, expected, "seed {seed}: {query}");
                assert_eq!(rows(&small, &query).await, expected, "seed {seed}, on disk: {query}");
                let plan = rows(&ours, &format!("EXPLAIN {query}")).await.concat();
                assert!(plan.contains("SimilarityJoinExec"), "{plan}");
            }
        }
        assert_eq!(pool.reserved(), 0);
    }
}

#[tokio::test]
async fn a_similarity_has_the_values_that_its_words_say() {
    let context = session(3, None);
    for (expression, expected) in [
        ("word_jaccard('the cat', 'the dog')", "0.3333333333333333"),
        ("ngram_jaccard('abcd', 'bcde', 2)", "0.5"),
        ("ngram_cosine('abc', 'abc', 3)", "1.0"),
        ("word_cosine('a b', NULL)", "null"),
        ("cosine_similarity([1.0, 0.0], [1.0, 1.0])", "0.7071067811865475"),
        ("cosine_similarity([0.0], [1.0])", "null"),
        ("cosine_similarity([3, 4], [6, 8])", "1.0"),
    ] {
        assert_eq!(rows(&context, &format!("SELECT {expression}")).await, [expected], "{expression}");
    }
    for (expression, expected) in [
        ("ngram_jaccard('a', 'b', 0)", "a length of 1 or more, and got 0"),
        ("cosine_similarity([1.0], [1.0, 2.0])", "vectors of one length, and got 1 and 2 elements"),
    ] {
        let error = error(&context, &format!("SELECT {expression}")).await;
        assert!(error.contains(expected), "{expression}: {error}");
    }
}

/// With a pool of a tenth of the left side, a full disk, a row that fails, and a stream that is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_it_ends_nothing_is_left() {
    use common::endings::{Join, table};
    let join = Join {
        tables: &[table("l", 4000), table("r", 20000)],
        query: "SELECT l.id, r.id FROM r l JOIN l r ON levenshtein(l.s, r.s) <= 1 AND l.k = r.k \
                  AND l.id < r.id + 2000",
        failing: "SELECT l.id, r.id FROM (SELECT id, k, s, 10 / (id - 19000) AS z FROM r) l JOIN l r \
                  ON levenshtein(l.s, r.s) <= 1 AND l.k = r.k AND l.id < r.id + l.z",
        pool_bytes: 100_000,
    };
    join.check().await;
}
