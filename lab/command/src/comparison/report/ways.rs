//! The report of the ways that the user listed.

use super::{QueryReport, WayReport, sums};

/// The share by which `auto` may be behind the best way of a query without being named.
const BEHIND: f64 = 0.05;

/// Returns the header and the rows of the table, and which columns are words. A cell has the time
/// of a way and, in brackets, the ratio of stock's time to it.
pub fn cells(names: &[String], queries: &[QueryReport]) -> (Vec<String>, Vec<Vec<String>>, Vec<usize>) {
    let mut header = vec!["query".to_owned(), "rows".to_owned()];
    header.extend(names.iter().map(|name| format!("{name} ms")));
    header.extend(["best", "equal"].map(str::to_owned));
    let mut rows: Vec<_> = queries.iter().map(row).collect();
    rows.extend(sums(queries).map(|sums| {
        let mut cells = vec!["sum".to_owned(), String::new()];
        cells.extend(sums.iter().map(|sum| time(Some(*sum), Some(sums[0] / sum))));
        cells.extend([names[least(&sums)].clone(), String::new()]);
        cells
    }));
    let best = header.len() - 2;
    (header, rows, vec![best])
}

/// Returns the sums of the times over the queries that were timed in every way, the best, and the
/// queries in which `auto` is behind.
pub fn summary(names: &[String], queries: &[QueryReport]) -> String {
    let Some(sums) = sums(queries) else { return "none was timed in every way".to_owned() };
    let timed = queries.iter().filter(|query| query.times().is_some()).count();
    let which = if timed == queries.len() { String::new() } else { format!("the {timed} timed in every way: ") };
    let sum = |(name, sum): (&String, &f64)| format!("{name} {sum:.0} ms ({:.3})", sums[0] / sum);
    let all: Vec<_> = names.iter().zip(&sums).map(sum).collect();
    format!("{which}{}; best: {}{}", all.join(", "), names[least(&sums)], behind(names, queries))
}

/// Returns the queries in which `auto` is behind the best way by more than [`BEHIND`] and by more
/// than the runs of either differed.
fn behind(names: &[String], queries: &[QueryReport]) -> String {
    let Some(auto) = names.iter().position(|name| name == "auto") else { return String::new() };
    let lag = |query: &QueryReport| {
        let (auto, best) = (&query.ways[auto], query.ways.iter().find(|way| way.best)?);
        let noise = |way: &WayReport| way.spread.unwrap_or_default();
        let lag = auto.ms? / best.ms? - 1.0;
        (lag > BEHIND.max(noise(auto)).max(noise(best))).then(|| format!("{} ({:.2})", query.query, lag + 1.0))
    };
    let lags: Vec<_> = queries.iter().filter_map(lag).collect();
    let whole = format!("; auto more than {:.0} % behind beyond the spread: ", BEHIND * 100.0);
    whole + &if lags.is_empty() { "never".to_owned() } else { format!("query {}", lags.join(", ")) }
}

/// Returns the name of the fastest way, or a dash if none was timed.
pub fn best(query: &QueryReport) -> String {
    query.ways.iter().find(|way| way.best).map_or("-".to_owned(), |way| way.way.clone())
}

fn row(query: &QueryReport) -> Vec<String> {
    let mut cells = vec![query.query.to_string(), query.rows.to_string()];
    cells.extend(query.ways.iter().map(|way| time(way.ms, way.ratio)));
    let different: Vec<_> = query.ways.iter().filter(|way| !way.equal).map(|way| way.way.as_str()).collect();
    let equal = if different.is_empty() { "yes".to_owned() } else { format!("NO: {}", different.join(", ")) };
    cells.extend([best(query), equal]);
    cells
}

fn time(ms: Option<f64>, ratio: Option<f64>) -> String {
    match (ms, ratio) {
        (Some(ms), Some(ratio)) => format!("{ms:.1} ({ratio:.3})"),
        _ => "-".to_owned(),
    }
}

fn least(sums: &[f64]) -> usize {
    (0..sums.len()).min_by(|a, b| sums[*a].total_cmp(&sums[*b])).unwrap_or(0)
}
