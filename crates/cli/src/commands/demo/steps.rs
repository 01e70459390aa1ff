//! The commands of the demonstration.

/// A command and what it is for.
pub struct Step {
    pub title: &'static str,
    /// The words behind `annulus`.
    pub words: Vec<String>,
}

/// The files with the answers to the compared query: of DataFusion's operators, and of Annulus.
pub const ANSWERS: [&str; 2] = ["answer-of-datafusion.csv", "answer-of-annulus.csv"];

/// The options with which a query runs on the operators of DataFusion.
const STOCK: [&str; 4] = ["--set", "annulus.strategy=stock", "--set", "annulus.joins=never"];

/// The visitors with the most visits within a minute of an alert.
const QUERY: &str = "SELECT v.visitor, count(*) AS visits, count(DISTINCT v.page) AS pages, sum(n.bytes) AS bytes \
                     FROM 'visits.parquet' v JOIN 'near/' n ON v.id = n.id \
                     GROUP BY v.visitor ORDER BY visits DESC, v.visitor LIMIT 100";

/// Returns the commands that make `rows` visits and use them, in their order.
pub fn steps(rows: u64) -> Vec<Step> {
    // Few visitors have many of the visits, as on real sites. The numbers of a visit are a function of its own.
    let visits = format!(
        "SELECT value AS id, CAST(50000 * power(value * 7919 % 1000003 / 1000003.0, 4) AS BIGINT) AS visitor, \
         value * 104729 % 97 AS page, to_timestamp(1772323200 + value / 20) AS time, value * 31 % 10007 AS bytes \
         FROM generate_series(1, {rows})"
    );
    let alerts = format!(
        "SELECT value AS alert, to_timestamp(1772323200 + 251 * value) AS time FROM generate_series(1, {})",
        (rows / 5000).max(1)
    );
    let near = "v.time BETWEEN a.time - INTERVAL '1 minute' AND a.time";
    let top = "SELECT page, count(*) AS visits, sum(bytes) AS bytes FROM 'near/' GROUP BY page \
               ORDER BY visits DESC, page LIMIT 5";
    let step = |title, words: &[&str]| Step { title, words: words.iter().map(|word| (*word).to_owned()).collect() };
    vec![
        step("Make the visits to a web site", &["sql", "--output", "visits.parquet", &visits]),
        step("Make its alerts", &["sql", "--output", "alerts.csv", &alerts]),
        step(
            "Split the visits into files, by visitor",
            &["partition", "visits.parquet", "--by", "visitor", "--into", "8", "--output", "by-visitor"],
        ),
        step(
            "Join them with the alerts of the next minute",
            &["join", "v=by-visitor/", "a=alerts.csv", "--where", near, "--output", "near"],
        ),
        step("Query the result", &["sql", top]),
        step(
            "Answer a query with DataFusion's operators",
            &[&["sql"], &STOCK[..], &["--output", ANSWERS[0], QUERY]].concat(),
        ),
        step("Answer it with Annulus", &["sql", "--output", ANSWERS[1], QUERY]),
    ]
}
