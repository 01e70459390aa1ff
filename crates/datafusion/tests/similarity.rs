//! Joins of similar texts and vectors against DataFusion's nested loops, which compare all pairs.

use std::{fmt::Write, sync::Arc};

use annulus_datafusion::SessionStateBuilderExt;
use datafusion::{
    execution::{
        SessionStateBuilder,
        memory_pool::{GreedyMemoryPool, MemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    prelude::{SessionConfig, SessionContext},
};

mod common;
use common::lines;

fn session(joins: &str, pool: Option<Arc<dyn MemoryPool>>) -> SessionContext {
    let mut runtime = RuntimeEnvBuilder::new();
    runtime.memory_pool = pool;
    let config = SessionConfig::new().with_target_partitions(3).with_batch_size(64);
    let builder = SessionStateBuilder::new_with_default_features().with_config(config);
    let builder = builder.with_runtime_env(Arc::new(runtime.build().unwrap()));
    let mut state = builder.with_annulus().build();
    state.config_mut().options_mut().set("annulus.joins", joins).unwrap();
    SessionContext::new_with_state(state)
}

async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    let mut rows = lines(&context.sql(query).await.expect(query).collect().await.expect(query));
    rows.sort();
    rows
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn text(&mut self) -> String {
        const NAMES: [&str; 8] = ["anna", "anne", "hanna", "Åsa", "jonathan", "jonatan", "bo", ""];
        let mut text = NAMES[self.next(8) as usize].to_owned();
        if self.next(2) == 0 {
            let _ = write!(text, " {}", NAMES[self.next(8) as usize]);
        }
        if self.next(3) == 0 && !text.is_empty() {
            text.push(['x', 'y', 'é'][self.next(3) as usize]);
        }
        text
    }

    fn vector(&mut self) -> String {
        let element =
            |numbers: &mut Self| if numbers.next(40) == 0 { "NULL".to_owned() } else { numbers.next(5).to_string() };
        let elements: Vec<String> = (0..3).map(|_| element(self)).collect();
        format!("[{}]", elements.join(", "))
    }
}

async fn create(context: &SessionContext, name: &str, seed: u64, count: u64) {
    let numbers = &mut Numbers(seed);
    let columns = "id BIGINT, s VARCHAR, g INT, x DOUBLE, v DOUBLE[]";
    context.sql(&format!("CREATE TABLE {name} ({columns})")).await.unwrap().collect().await.unwrap();
    let mut values = Vec::new();
    for id in 0..count {
        let null = |numbers: &mut Numbers, value: String| if numbers.next(10) == 0 { "NULL".to_owned() } else { value };
        let text = format!("'{}'", numbers.text());
        let (text, vector) = (null(numbers, text), numbers.vector());
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
        let (stock, ours) = (session("never", None), session("always", None));
        let small = session("always", Some(Arc::clone(&pool)));
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
    let context = session("auto", None);
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
        let query = format!("SELECT {expression}");
        let error = match context.sql(&query).await {
            Ok(frame) => frame.collect().await.expect_err(expression).to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(expected), "{expression}: {error}");
    }
}
