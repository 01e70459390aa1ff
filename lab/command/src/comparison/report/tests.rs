use super::*;

/// Returns the report of a query; a way without a time gave another answer.
fn query_report(query: u8, times: &[(&str, Option<u64>)]) -> QueryReport {
    let mut ways: Vec<_> = times.iter().map(|(name, _)| WayReport::new(name)).collect();
    ways.iter_mut().zip(times).for_each(|(way, (_, ms))| way.equal = ms.is_some());
    let mut report = QueryReport { query, rows: 1, ways };
    let times: Vec<Vec<_>> =
        times.iter().map(|(_, ms)| ms.iter().map(|ms| Duration::from_millis(*ms)).collect()).collect();
    report.set_times(&times);
    report
}

fn pair(query: u8, stock_ms: u64, annulus_ms: u64) -> QueryReport {
    query_report(query, &[("stock", Some(stock_ms)), ("auto", Some(annulus_ms))])
}

fn report(queries: &[QueryReport], listed: bool) -> Report {
    let names = queries[0].ways.iter().map(|way| way.way.clone()).collect();
    Report { queries: queries.to_vec(), ways: listed.then_some(names), runs: String::new(), set: Vec::new() }
}

#[test]
fn times_are_medians_with_their_spread() {
    let ms = |values: &[u64]| values.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
    let mut query = query_report(1, &[("stock", Some(1)), ("auto", Some(1)), ("ring", None)]);
    query.set_times(&[ms(&[9, 1, 5]), ms(&[]), ms(&[3])]);
    assert_eq!((query.ways[0].ms, query.ways[0].spread), (Some(5.0), Some(0.8)));
    assert_eq!(query.ways[2].ms, None, "its answer differs");
}

#[test]
fn the_summary_names_the_queries_in_which_auto_is_behind() {
    let ms = |values: &[u64]| values.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
    let query = |number, auto: &[u64]| {
        let mut query = query_report(number, &[("stock", Some(200)), ("auto", Some(1)), ("ring", Some(1))]);
        query.set_times(&[ms(&[200]), ms(auto), ms(&[100, 100, 100])]);
        query
    };
    let line = report(&[query(1, &[104]), query(2, &[107, 107, 107]), query(3, &[100, 107, 140])], true).summary();
    assert!(line.contains("; auto more than 5 % behind beyond the spread: query 2 (1.07); "), "{line}");
    let line = report(&[query(1, &[104])], true).summary();
    assert!(line.contains("beyond the spread: never; "), "{line}");
    let line = report(&[query_report(1, &[("stock", Some(2)), ("ring", Some(1))])], true).summary();
    assert!(!line.contains("behind"), "{line}");
}

#[test]
fn the_summary_names_the_worst_query() {
    let line = report(&[pair(1, 300, 100), pair(7, 90, 100)], false).summary();
    assert!(line.contains("ratio 1.950") && line.contains("query 7 (0.900)"), "{line}");
    assert!(line.contains("all answers equal"), "{line}");
}

#[test]
fn the_summary_names_wrong_queries() {
    let wrong = query_report(3, &[("stock", Some(1)), ("auto", None)]);
    let line = report(&[pair(1, 300, 100), wrong.clone()], false).summary();
    assert!(line.contains("NOT EQUAL OR FAILED: 3"), "{line}");
    let one = report(std::slice::from_ref(&wrong), false);
    assert!(one.summary().starts_with("1 query: no times"), "{}", one.summary());
    assert!(!one.all_equal());
    let line = one.line(&wrong).expect("JSON");
    assert!(line.contains("\"stock_ms\":null") && line.contains("\"equal\":false"), "{line}");
}

#[test]
fn each_way_has_its_column_and_the_best_is_marked() {
    let queries = [
        query_report(1, &[("stock", Some(200)), ("auto", Some(100)), ("ring", Some(400))]),
        query_report(2, &[("stock", Some(100)), ("auto", Some(200)), ("ring", Some(50))]),
        query_report(3, &[("stock", Some(100)), ("auto", Some(10)), ("ring", None)]),
    ];
    assert!(queries[0].ways[1].best && !queries[0].ways[0].best && !queries[0].ways[2].best);
    let all = report(&queries, true);
    let (header, rows, words) = all.cells();
    assert_eq!(header, ["query", "rows", "stock ms", "auto ms", "ring ms", "best", "equal"]);
    assert_eq!(words, [5]);
    assert_eq!(rows[0], ["1", "1", "200.0 (1.000)", "100.0 (2.000)", "400.0 (0.500)", "auto", "yes"]);
    assert_eq!(rows[2], ["3", "1", "100.0 (1.000)", "10.0 (10.000)", "-", "auto", "NO: ring"]);
    // The third query is left out: one way has no time.
    assert_eq!(rows[3], ["sum", "", "300.0 (1.000)", "300.0 (1.000)", "450.0 (0.667)", "stock", ""]);
    let line = all.summary();
    assert!(line.contains("stock 300 ms (1.000), auto 300 ms (1.000), ring 450 ms (0.667); best: stock"), "{line}");
    assert!(line.starts_with("3 queries: the 2 timed in every way: stock 300 ms"), "{line}");
    assert!(line.ends_with("NOT EQUAL OR FAILED: 3"), "{line}");
    let line = report(&queries[2..], true).summary();
    assert!(line.starts_with("1 query: none was timed in every way; NOT EQUAL OR FAILED"), "{line}");
    let json: serde_json::Value = serde_json::from_str(&all.line(&queries[0]).expect("JSON")).expect("JSON");
    assert_eq!((json["ways"][1]["way"].as_str(), json["ways"][1]["best"].as_bool()), (Some("auto"), Some(true)));
}

#[test]
fn the_options_that_were_set_are_reported() {
    for listed in [false, true] {
        let mut report = report(&[pair(1, 3, 2)], listed);
        let line = |report: &Report| report.line(&report.queries[0]).expect("a line");
        assert!(line(&report).ends_with(r#","set":[]}"#) && !report.summary().contains("set:"), "{}", line(&report));
        report.set = vec!["annulus.joins=never".to_owned(), "groups=2".to_owned()];
        assert!(line(&report).ends_with(r#","set":["annulus.joins=never","groups=2"]}"#), "{}", line(&report));
        let summary = report.summary();
        assert!(summary.ends_with("; set: annulus.joins=never, groups=2; all answers equal"), "{summary}");
    }
}
