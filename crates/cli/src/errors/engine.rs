//! What DataFusion says, in its words, and what to do about it. It has no types for these errors: each text
//! here has a test that fails when the words change.

/// How DataFusion begins the name of a table in an error about a missing one, and ends it.
const MISSING_TABLE: (&str, &str) = ("table '", "' not found");

/// Returns the table's name in an error about a missing table, as it stands there and as it was
/// written.
pub fn missing_table(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once(MISSING_TABLE.0)?;
    let (qualified, _) = rest.split_once(MISSING_TABLE.1)?;
    let name = qualified.strip_prefix("datafusion.").unwrap_or(qualified);
    Some((qualified, name.strip_prefix("public.").unwrap_or(name)))
}

/// What the parser found instead of a name where a path is not in quotes, as in `FROM ./a.csv`.
const PATHS: [&str; 2] = ["identifier, found: .", "identifier, found: /"];
/// What it found instead of a statement where a command of the shell stands.
const SHELL_COMMANDS: [&str; 3] = [
    "an SQL statement, found: \\ at Line",
    "an SQL statement, found: . at Line",
    "an SQL statement, found: help at Line",
];

/// Returns what to do about an error of the parser.
pub fn syntax_remedy(message: &str) -> &'static str {
    let is_one_of = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    if is_one_of(&PATHS) {
        "; put paths in single quotes"
    } else if is_one_of(&SHELL_COMMANDS) {
        "; SHOW TABLES lists tables, and the shell has commands (annulus sql, on a terminal)"
    } else {
        ""
    }
}

/// The beginnings of the names of types of time.
const TIMES: [&str; 4] = ["Timestamp", "Date", "Interval", "Duration"];
/// What begins the request to report an internal error.
const REPORT: &str = "\nThis issue was likely caused by a bug in DataFusion's code.";
const INTERNAL: &str = "Internal error: ";
/// How errors of functions begin whose arguments have other types.
const FUNCTION: &str = "Internal error: Function '";
const NO_SIGNATURE: &str = "No function matches the given name and argument types";
const NO_NUMBER: &str = "Function 'abs' expects Numeric but received ";
/// The errors of types that do not fit each other.
const NO_COMMON_TYPE: [&str; 3] = ["Cannot coerce", "Failed to coerce", "Cannot infer common argument type"];

/// Returns an error about types that do not fit each other with a remedy; `None` for other errors. The
/// engine calls some of them internal errors, and asks for a report.
pub fn about_types(text: &str) -> Option<String> {
    let signature = text.find(NO_SIGNATURE);
    if let Some((before, _)) = text.split_once(NO_NUMBER)
        && TIMES.iter().any(|time| text.contains(time))
    {
        return Some(format!(
            "{before}abs takes numbers, not times; write a range, as in a.t BETWEEN b.t - INTERVAL '5 minutes' AND \
             b.t + INTERVAL '5 minutes'"
        ));
    }
    if let Some(start) = signature.filter(|_| text.contains(FUNCTION)) {
        return Some(text[start..].to_owned());
    }
    if !NO_COMMON_TYPE.iter().any(|words| text.contains(words)) {
        return None;
    }
    let message = text.split(REPORT).next().unwrap_or(text).trim_end_matches('.');
    let message = message.replace(INTERNAL, "");
    let is_time = TIMES.iter().any(|time| message.contains(time));
    let remedy = if is_time && message.contains("Utf8") {
        "convert the text, as in to_timestamp(x), or read CSV and JSON with --types x=timestamp"
    } else if is_time && (message.contains("Int") || message.contains("arithmetic")) {
        "compare times with times, and add or subtract intervals, as in t - INTERVAL '5 minutes'"
    } else {
        "convert one side, as in CAST(x AS BIGINT)"
    };
    Some(format!("{message}; {remedy}"))
}

/// The error of a local time that does not exist, or exists twice, in a zone. It does not name the time.
const CLOCK_CHANGE: &str = "Cannot cast timezone to different timezone";

/// Returns the error of a local time in the hour of a clock change with a remedy; `None` for other errors.
pub fn about_zones(text: &str) -> Option<String> {
    text.contains(CLOCK_CHANGE).then(|| {
        "a local time does not exist in this time zone, or exists twice, because the clock changes: shift such times \
         before AT TIME ZONE, or cast them to TIMESTAMPTZ, which takes them as UTC"
            .to_owned()
    })
}

/// How errors about exhausted memory begin.
const NO_MEMORY: &str = "Resources exhausted";

/// Returns an error about exhausted memory with a remedy; `None` if it has one, and for other errors. Those
/// of workers are texts.
pub fn about_memory(text: &str) -> Option<String> {
    const REMEDY: &str = "allow more memory";
    let has_remedy = ["memory_limit", "--memory-limit", "disk"].iter().any(|word| text.contains(word));
    if !text.contains(NO_MEMORY) || has_remedy {
        return None;
    }
    let named = format!("{REMEDY} (--memory-limit)");
    Some(match text.contains(REMEDY) {
        true => text.replacen(REMEDY, &named, 1),
        false => format!("{}; {named}", text.trim_end_matches('.')),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anyhow::Error;
    use datafusion::{
        execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryPool},
        prelude::SessionContext,
    };

    use super::super::text;

    /// Returns the error of a statement, as users read it.
    async fn refused(sql: &str) -> String {
        let context = SessionContext::new();
        let error = match context.sql(sql).await {
            Ok(planned) => planned.collect().await.expect_err(sql),
            Err(error) => error,
        };
        text(&Error::from(error))
    }

    #[tokio::test]
    async fn a_missing_table_is_found_in_the_words_of_the_engine() {
        for (sql, qualified, name) in [
            ("SELECT * FROM nothing", "datafusion.public.nothing", "nothing"),
            ("SELECT * FROM 'x/y.csv'", "datafusion.public.x/y.csv", "x/y.csv"),
            ("SELECT * FROM other.nothing", "datafusion.other.nothing", "other.nothing"),
        ] {
            let text = refused(sql).await;
            assert_eq!(super::missing_table(&text), Some((qualified, name)), "{text}");
        }
        assert_eq!(super::missing_table(&refused("SELECT nothing").await), None);
    }

    #[tokio::test]
    async fn the_parser_says_where_quotes_are_missing() {
        for sql in ["SELECT * FROM ./a.csv", "SELECT * FROM /a.csv"] {
            assert!(refused(sql).await.ends_with("; put paths in single quotes"), "{sql}");
        }
        for sql in ["\\d", ".tables", "help"] {
            let text = refused(sql).await;
            assert!(text.contains("; SHOW TABLES lists tables"), "{text}");
        }
        assert!(!refused("SELEC 1").await.contains("; "));
    }

    #[tokio::test]
    async fn types_that_do_not_fit_have_a_remedy() {
        let times = refused("SELECT to_timestamp(0) - 5").await;
        assert!(
            times
                .ends_with("; compare times with times, and add or subtract intervals, as in t - INTERVAL '5 minutes'")
        );
        let numbers = refused("SELECT abs(to_timestamp(0) - to_timestamp(1))").await;
        assert!(numbers.contains("abs takes numbers, not times; write a range"), "{numbers}");
        let range = refused("SELECT true BETWEEN DATE '2026-01-01' AND DATE '2026-01-02'").await;
        assert!(range.starts_with("Failed to coerce types Boolean and Date32"), "{range}");
        assert!(range.ends_with("in BETWEEN expression; convert one side, as in CAST(x AS BIGINT)"), "{range}");
        let sides = refused("SELECT to_timestamp(0) = true").await;
        assert!(sides.contains("Cannot infer common argument type") && sides.contains("; convert one side"), "{sides}");
        let argument = refused("SELECT avg('x')").await;
        assert!(argument.starts_with("No function matches the given name and argument types"), "{argument}");
    }

    #[tokio::test]
    async fn times_of_a_clock_change_have_a_remedy() {
        for time in ["2026-03-29 02:30:00", "2026-10-25 02:30:00"] {
            let text =
                refused(&format!("SELECT arrow_cast('{time}', 'Timestamp(ms)') AT TIME ZONE 'Europe/Zurich'")).await;
            assert!(text.contains("because the clock changes"), "{text}");
        }
    }

    #[tokio::test]
    async fn exhausted_memory_has_a_remedy() {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(100));
        let error = MemoryConsumer::new("sort").register(&pool).try_grow(1000).expect_err("too much");
        let text = text(&Error::from(error));
        assert!(text.contains("allow more memory (--memory-limit)"), "{text}");
    }
}
