//! Times with and without a zone, and other pairs that are refused.

use annulus_datafusion::config::Joins;
use datafusion::prelude::SessionContext;

use crate::support::{JOINS, rows, run, session};

/// Zoned times in Zurich at each hour of UTC, and the same wall clock of UTC without a zone.
async fn tables(context: &SessionContext) {
    let table = |name: &str, cast: &str| {
        let instant = "arrow_cast(1735689600000000 + v * 3600000000, 'Timestamp(us, \"UTC\")')";
        format!(
            "CREATE TABLE {name} AS SELECT v AS id, arrow_cast({instant}, '{cast}') AS at \
                 FROM (VALUES (0), (1), (2), (3)) AS t (v)"
        )
    };
    let zoned = table("z", "Timestamp(us, \"Europe/Zurich\")");
    run(context, &[&zoned, &table("n", "Timestamp(us)"), &table("u", "Timestamp(ms, \"+00:00\")")]).await;
    run(context, &["CREATE TABLE d AS SELECT DATE '2025-01-01' AS day, '2025-01-01T00:00:00Z' AS text"]).await;
}

/// Statements that would need to know the zone of `n.at`.
const MIXED: [&str; 16] = [
    "SELECT z.id, n.id FROM z JOIN n ON z.at = n.at",
    "SELECT z.id, n.id FROM z JOIN n USING (at)",
    "SELECT z.id, n.id FROM z JOIN n ON z.at BETWEEN n.at AND n.at",
    "SELECT z.id, n.id FROM z JOIN n ON z.at - n.at <= INTERVAL '0 hours' AND z.at - n.at >= INTERVAL '0 hours'",
    "SELECT z.id, z.id AS i FROM z WHERE at IN (SELECT at FROM n)",
    "SELECT z.id, z.id AS i FROM z WHERE EXISTS (SELECT 1 FROM n WHERE n.at = z.at)",
    "SELECT z.id, z.id AS i FROM z WHERE z.at NOT IN (SELECT at + INTERVAL '4 hours' FROM n)",
    "SELECT z.id, n.id FROM z, n WHERE z.at <= n.at AND n.at <= z.at",
    "SELECT z.id, n.id FROM z JOIN n ON z.at IS NOT DISTINCT FROM n.at",
    "SELECT z.id, n.id FROM z JOIN n ON CASE z.at WHEN n.at THEN true ELSE false END",
    "SELECT z.id, n.id FROM z JOIN n ON nullif(z.at, n.at) IS NULL",
    "SELECT z.id, n.id FROM z JOIN n ON greatest(z.at, n.at) = least(z.at, n.at)",
    "SELECT z.id, n.id FROM z JOIN n ON struct(z.at) = struct(n.at)",
    "SELECT id, id AS i FROM (SELECT id, at FROM n UNION SELECT id, at FROM z)",
    "SELECT id, id AS i FROM (SELECT id, at FROM n INTERSECT SELECT id, at FROM z)",
    "SELECT z.id, n.id FROM z JOIN n ON z.id = n.id AND coalesce(n.at, z.at) = coalesce(z.at, n.at)",
];

#[tokio::test]
async fn an_unknown_zone_is_refused() {
    for joins in JOINS {
        let context = session(joins);
        tables(&context).await;
        for query in MIXED {
            let error = rows(&context, query).await.expect_err(query);
            for part in ["time zone", "AT TIME ZONE 'UTC'", "`datafusion.execution.time_zone`"] {
                assert!(error.contains(part), "{query}: {error}");
            }
        }
        for query in [
            "SELECT 1 FROM z, d WHERE z.at >= d.day",
            "SELECT 1 FROM z WHERE at >= TIMESTAMP '2025-01-01 00:00:00'",
            "SELECT 1 FROM z WHERE at >= DATE '2025-01-01'",
            "SELECT coalesce(day, at) FROM z, d",
            "SELECT CASE WHEN true THEN at ELSE day END FROM z, d",
            "SELECT [z.at, n.at] FROM z, n",
        ] {
            let error = rows(&context, query).await.expect_err(query);
            assert!(error.contains("time zone"), "{query}: {error}");
        }
    }
}

#[tokio::test]
async fn a_zone_that_the_session_names_is_that_of_times_without_one() {
    for joins in JOINS {
        let context = session(joins);
        tables(&context).await;
        run(&context, &["SET datafusion.execution.time_zone = 'UTC'"]).await;
        for query in MIXED {
            let found = rows(&context, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(found, ["0,0", "1,1", "2,2", "3,3"], "{query}");
        }
        let days = rows(&context, "SELECT z.id FROM z, d WHERE z.at = d.day").await;
        assert_eq!(days.expect("dates"), ["0"]);
    }
}

#[tokio::test]
async fn a_zone_that_the_query_names_is_known() {
    let context = session(Joins::Always);
    tables(&context).await;
    for (query, expected) in [
        ("SELECT z.id, n.id FROM z JOIN n ON z.at = n.at AT TIME ZONE 'UTC'", "0,0 1,1 2,2 3,3"),
        ("SELECT z.id, n.id FROM z JOIN n ON z.at = n.at AT TIME ZONE 'Europe/Zurich'", "0,1 1,2 2,3"),
        ("SELECT z.id, u.id FROM z JOIN u USING (at)", "0,0 1,1 2,2 3,3"),
        ("SELECT z.id, u.id FROM z JOIN u ON z.at = u.at + INTERVAL '1 hour'", "1,0 2,1 3,2"),
        // Texts with an offset are instants, others are in the zone of the column.
        ("SELECT id FROM z WHERE at = '2025-01-01T01:00:00Z'", "1"),
        ("SELECT id FROM z WHERE at = '2025-01-01 01:00:00'", "0"),
        ("SELECT id FROM z WHERE at = '2025-01-01 02:00' OR at = '2025-01-01T02:00Z'", "1 2"),
        (
            "SELECT id FROM n WHERE at = TIMESTAMP '2025-01-01 01:00' AND at = CAST('2025-01-01T01:00' AS TIMESTAMP)",
            "1",
        ),
        ("SELECT id FROM n WHERE at = TRY_CAST('2025-01-01 02:00' AS TIMESTAMP)", "2"),
        ("SELECT id FROM n WHERE at < '9999-12-31' AND at = '2025-01-01 01:00:00'", "1"),
        ("SELECT count(*) FROM z WHERE at < now() AND at < current_date AND at < now() - INTERVAL '1 day'", "4"),
        ("SELECT count(*) FROM n WHERE at < now() AND at < current_date", "4"),
    ] {
        let found = rows(&context, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(found.join(" "), expected, "{query}");
    }
}

/// The present time is an instant, not a wall clock of the column's zone.
#[tokio::test]
async fn the_present_time_is_an_instant() {
    let context = session(Joins::Always);
    let hours = "SELECT arrow_cast(arrow_cast(now(), 'Int64') + $h * 3600000000000, 'Timestamp(ns, \"+00:00\")') AS at";
    let query = format!(
        "SELECT count(*) FROM (SELECT arrow_cast(at, 'Timestamp(ns, \"Asia/Tokyo\")') AS at FROM ({} UNION ALL {})) \
         WHERE at < now()",
        hours.replace("$h", "1"),
        hours.replace("$h", "-1")
    );
    assert_eq!(rows(&context, &query).await.expect("a count"), ["1"]);
}

#[tokio::test]
async fn texts_beside_numbers_and_times_are_refused() {
    let context = session(Joins::Auto);
    tables(&context).await;
    run(&context, &["CREATE TABLE t AS SELECT '0123' AS s, 123 AS i, 1.5 AS f, DATE '2025-01-01' AS day"]).await;
    for query in [
        "SELECT 1 FROM t WHERE s = 123",
        "SELECT 1 FROM t WHERE s = i",
        "SELECT 1 FROM t a JOIN t b ON a.s = b.i",
        "SELECT 1 FROM t WHERE s IN (1, 2)",
        "SELECT 1 FROM t WHERE i IN (SELECT s FROM t)",
        "SELECT 1 FROM t WHERE s BETWEEN 1 AND 2",
        "SELECT 1 FROM t WHERE f < s",
        "SELECT 1 FROM t WHERE day = s",
        "SELECT 1 FROM d JOIN z ON d.text = z.at",
        "SELECT 1 FROM t WHERE day = i",
    ] {
        let error = rows(&context, query).await.expect_err(query);
        assert!(error.contains("cannot compare") && error.contains("CAST("), "{query}: {error}");
    }
    for query in [
        "SELECT 1 FROM t WHERE i = '0123'",
        "SELECT 1 FROM t WHERE day = '2025-01-01'",
        "SELECT 1 FROM t WHERE CAST(s AS INT) = i",
        "SELECT 1 FROM t WHERE s = '0123' AND s IN ('0123', 'x') AND s > '01'",
    ] {
        assert_eq!(rows(&context, query).await.unwrap_or_else(|error| panic!("{query}: {error}")), ["1"], "{query}");
    }
}

#[tokio::test]
async fn decimals_beside_floats_are_floats() {
    let context = session(Joins::Auto);
    run(
        &context,
        &[
            "CREATE TABLE d AS SELECT CAST(v AS DECIMAL(20, 1)) AS d FROM (VALUES ('0.3'), ('0.1')) AS t (v)",
            "CREATE TABLE f AS SELECT v AS f FROM (VALUES (0.5e0), (0.1e0), (1e30), (0.1e0 + 0.2e0)) AS t (v)",
        ],
    )
    .await;
    for (query, expected) in [
        ("SELECT d, f FROM d JOIN f ON d = f", "0.1,0.1"),
        ("SELECT d FROM d WHERE d IN (SELECT f FROM f)", "0.1"),
        ("SELECT count(*) FROM f WHERE f > CAST(0.7 AS DECIMAL(20, 1))", "1"),
        ("SELECT count(*) FROM d WHERE d < 1e30 AND d > -1e300 AND d IN (0.3, 0.1, 1e30)", "2"),
        ("SELECT count(*) FROM d WHERE d = 0.3 AND d BETWEEN 0.06 + 0.24 AND 0.3", "1"),
        ("SELECT coalesce(f, d) FROM d, f WHERE d = 0.3 AND f > 1", "1e30"),
        ("SELECT d FROM d UNION SELECT f FROM f", "0.1 0.3 0.30000000000000004 0.5 1e30"),
        ("SELECT arrow_typeof(coalesce(d, 0.0)) FROM d LIMIT 1", "Decimal128(34, 15)"),
    ] {
        let found = rows(&context, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(found.join(" "), expected, "{query}");
    }
}

#[tokio::test]
async fn differences_of_times_are_compared_with_constant_intervals() {
    let context = session(Joins::Always);
    tables(&context).await;
    for (interval, pairs) in [("1 day", 16), ("1 month", 16), ("90 minutes", 13), ("1 hour", 13), ("0 hours", 10)] {
        let query = format!("SELECT a.id, b.id FROM n a JOIN n b ON a.at - b.at <= INTERVAL '{interval}'");
        assert_eq!(rows(&context, &query).await.expect(interval).len(), pairs, "{interval}");
    }
    let day = "SELECT a.id FROM n a JOIN n b ON a.at + INTERVAL '2 days' - b.at <= INTERVAL '1 day'";
    assert_eq!(rows(&context, day).await.expect("a day"), [""; 0]);
}
