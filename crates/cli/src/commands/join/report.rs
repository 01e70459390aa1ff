//! The plan and the result of a join, as tables and as JSON.

use annulus_cluster::{AlgorithmCost, KeyFilterDecision, Planned, Revolutions, Summary};
use annulus_join::{Side, Sides};
use annulus_terminal::report::plain;
use anyhow::Result;
use arrow::datatypes::{FieldRef, Fields};
use comfy_table::CellAlignment;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use super::args::JoinCommandJob;

/// Returns the plan as one JSON object.
pub fn plan_json(command: &JoinCommandJob, planned: &Planned) -> Result<String> {
    Ok(serde_json::to_string(&plan(command, planned))?)
}

/// Returns the result as one JSON object.
pub fn json(command: &JoinCommandJob, planned: &Planned, summary: &Summary) -> Result<String> {
    let mut object = plan(command, planned);
    object["output"] = json!(command.job.output);
    object["rows_out"] = json!(summary.manifest.rows);
    object["bytes_out"] = json!(summary.manifest.bytes);
    object["key_filter"] = key_filter(&summary.key_filter);
    object["rows_dropped"] = json!(rows_dropped(summary));
    object["files"] = json!(summary.manifest.file_names().count());
    object["rows_bad"] = json!(rows_bad(summary));
    object["seconds"] = json!((summary.elapsed.as_secs_f64() * 1e3).round() / 1e3);
    let hosts = summary.names.iter().zip(&summary.hosts).map(|(name, host)| {
        let mut object = json!(host);
        object["host"] = json!(name);
        object
    });
    object["per_host"] = hosts.collect();
    Ok(serde_json::to_string(&object)?)
}

fn plan(command: &JoinCommandJob, planned: &Planned) -> Value {
    let Sides { left, right } = planned.extents;
    let shown = &planned.shown;
    json!({
        "type": command.job.query.join.name(),
        "hosts": planned.hosts,
        "engine": if planned.is_single { "sql" } else { "ring" },
        "threads": command.job.options.threads,
        "rotate": side_name(planned.choice.rotate),
        "rotate_reason": planned.choice.rotate_reason.to_string(),
        "algorithm": planned.choice.algorithm.name(),
        "algorithm_reason": planned.choice.algorithm_reason.to_string(),
        "algorithm_costs": planned.choice.costs.map(|costs| json!({
            "hash": cost(&costs.hash),
            "merge": cost(&costs.merge),
        })),
        "keys": shown.keys,
        "filter": shown.filter,
        "dropped_left": shown.dropped.left,
        "dropped_right": shown.dropped.right,
        "columns_left": shown.read.left,
        "columns_right": shown.read.right,
        "select": shown.select,
        "columns": columns(planned.columns.fields()),
        "rows_left": left.rows,
        "rows_right": right.rows,
        "bytes_left": left.bytes,
        "bytes_right": right.bytes,
        "revolutions": planned.revolutions,
        "memory_per_host": planned.memory_per_host,
        "key_filter": key_filter(&KeyFilterDecision::planned(planned)),
        "memory_kept_per_host": if planned.revolutions > 1 { planned.kept_bytes } else { 0 },
    })
}

fn cost(cost: &AlgorithmCost) -> Value {
    let milliseconds = |ns: f64| json!((ns / 1e3).round() / 1e3);
    json!({ "setup_ms": milliseconds(cost.setup_ns), "join_ms": milliseconds(cost.join_ns) })
}

fn key_filter(decision: &KeyFilterDecision) -> Value {
    let bytes = decision.filter.map_or(0, |filter| filter.bytes);
    json!({ "form": decision.name(), "bytes": bytes, "reason": decision.reason.to_string() })
}

fn rows_dropped(summary: &Summary) -> u64 {
    summary.hosts.iter().map(|host| host.rows_dropped).sum()
}

/// Returns the columns of the result, with their types.
pub fn columns(fields: &Fields) -> Value {
    let column = |field: &FieldRef| {
        let (name, nullable) = (field.name(), field.is_nullable());
        json!({ "name": name, "type": field.data_type().to_string(), "nullable": nullable })
    };
    fields.iter().map(column).collect()
}

/// Returns the plan as a table.
pub fn plan_text(command: &JoinCommandJob, planned: &Planned) -> String {
    let mut table = plain::list();
    let query = &command.job.query;
    let choice = planned.choice;
    let Sides { left, right } = planned.extents;
    let shown = &planned.shown;
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    row("join", query.join.to_string());
    for (name, extent) in [(&query.left.name, left), (&query.right.name, right)] {
        row(name, format!("about {} rows, {} in memory", HumanCount(extent.rows), HumanBytes(extent.bytes)));
    }
    row("rotates", format!("{}: {}", rotating(command, planned), choice.rotate_reason));
    row("algorithm", format!("{}: {}", choice.algorithm.name(), choice.algorithm_reason));
    if let Some(costs) = choice.costs {
        for (name, cost) in [("cost of hash", costs.hash), ("cost of merge", costs.merge)] {
            let [setup, join] = [cost.setup_ns, cost.join_ns].map(time);
            row(name, format!("about {setup} to prepare and {join} to join, on each host"));
        }
    }
    if let Some(select) = &shown.select {
        row("output columns", select.join(", "));
        for (name, read) in [&query.left.name, &query.right.name].into_iter().zip(shown.read.iter()) {
            row(&format!("columns read of {name}"), if read.is_empty() { "none".to_owned() } else { read.join(", ") });
        }
    }
    let mut conditions = |name: &str, conditions: &[String]| {
        if !conditions.is_empty() {
            row(name, conditions.join(" AND "));
        }
    };
    conditions("keys", &shown.keys);
    conditions("filter on pairs", &shown.filter);
    conditions(&format!("filter on {}", query.left.name), &shown.dropped.left);
    conditions(&format!("filter on {}", query.right.name), &shown.dropped.right);
    let filter = KeyFilterDecision::planned(planned);
    row("key filter", format!("{}: {}", filter.name(), filter.reason));
    let threads = match command.job.options.threads {
        Some(1) => "1 thread".to_owned(),
        Some(threads) => format!("{threads} threads"),
        None => "a thread per core".to_owned(),
    };
    row("hosts", format!("{}, each with {threads}", planned.hosts));
    if planned.is_single {
        row("engine", "that of annulus sql".to_owned());
    }
    row("revolutions", revolutions(command, planned));
    row("memory per host", format!("about {}", HumanBytes(planned.memory_per_host)));
    if planned.revolutions > 1 {
        let kept = HumanBytes(planned.kept_bytes);
        row("kept per host", format!("rotating rows, up to {kept} in memory, the others on the output's disk"));
    }
    table.trim_fmt()
}

/// Returns the result as tables.
pub fn text(command: &JoinCommandJob, planned: &Planned, summary: &Summary) -> String {
    let mut table = plain::list();
    let manifest = &summary.manifest;
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    row("output", command.job.output.display().to_string());
    row("rows", HumanCount(manifest.rows).to_string());
    row("files", format!("{}, {}", manifest.file_names().count(), HumanBytes(manifest.bytes)));
    if rows_bad(summary) > 0 {
        row("bad rows", format!("{} (skipped)", HumanCount(rows_bad(summary))));
    }
    let (join, rotating) = (command.job.query.join, rotating(command, planned));
    row("join", format!("{join} by {}; {rotating} rotated", planned.choice.algorithm.name()));
    if planned.revolutions > 1 || command.job.options.revolutions == Revolutions::Auto {
        row("revolutions", revolutions(command, planned));
    }
    if let Some(filter) = summary.key_filter.filter {
        let (dropped, bytes) = (HumanCount(rows_dropped(summary)), HumanBytes(filter.bytes));
        row("key filter", format!("{}, {bytes}: {dropped} rotating rows dropped", summary.key_filter.name()));
    } else if rows_dropped(summary) > 0 {
        row("key filter", format!("{} rotating rows dropped where they are read", HumanCount(rows_dropped(summary))));
    }
    let kept_on_disk: u64 = summary.hosts.iter().map(|host| host.bytes_kept[1]).sum();
    if kept_on_disk > 0 {
        row("kept on disk", format!("{} of rotating rows, until the last revolution", HumanBytes(kept_on_disk)));
    }
    row("time", format!("{:.2} s", summary.elapsed.as_secs_f64()));
    format!("{}\n\n{}", table.trim_fmt(), hosts_text(summary))
}

/// Returns a table of the hosts, with times split as in section V of the paper: setup, join,
/// waiting.
fn hosts_text(summary: &Summary) -> String {
    let mut table = plain::list();
    let header = ["", "rows left", "rows right", "rows out", "read s", "setup s", "join s", "waiting s", "memory"];
    table.set_header(header);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let seconds = |milliseconds: f64| format!("{:.3}", milliseconds / 1e3);
    for (name, summary) in summary.names.iter().zip(&summary.hosts) {
        let [left, right] = summary.rows.map(|rows| HumanCount(rows).to_string());
        let times = [summary.load_ms, summary.setup_ms, summary.join_ms, summary.wait_ms].map(seconds);
        let [load, setup, join, wait] = times;
        let rows_out = HumanCount(summary.rows_out).to_string();
        let memory = HumanBytes(summary.peak_bytes).to_string();
        table.add_row([name.clone(), left, right, rows_out, load, setup, join, wait, memory]);
    }
    table.trim_fmt()
}

fn time(nanoseconds: f64) -> String {
    if nanoseconds < 1e9 { format!("{:.1} ms", nanoseconds / 1e6) } else { format!("{:.1} s", nanoseconds / 1e9) }
}

/// Returns the number of revolutions and its origin.
fn revolutions(command: &JoinCommandJob, planned: &Planned) -> String {
    match command.job.options.revolutions {
        Revolutions::Auto => format!("{}, chosen for --memory-limit", planned.revolutions),
        Revolutions::Exactly(revolutions) => revolutions.to_string(),
    }
}

fn rows_bad(summary: &Summary) -> u64 {
    summary.hosts.iter().map(|host| host.rows_bad).sum()
}

/// Returns the name of the rotating relation.
fn rotating<'a>(command: &'a JoinCommandJob, planned: &Planned) -> &'a str {
    let query = &command.job.query;
    if planned.choice.rotate == Side::Left { &query.left.name } else { &query.right.name }
}

fn side_name(side: Side) -> &'static str {
    if side == Side::Left { "left" } else { "right" }
}
