//! The plan and the result of a join, as text and as JSON.

use annulus_distributed::{Written, address_of};
use annulus_terminal::{plain, units::counted};
use comfy_table::CellAlignment;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use super::{args::JoinJob, counts::CountSnapshot};
use crate::cluster::Remote;

/// A join that has ended.
pub struct JoinResult {
    pub written: Written,
    /// What a join in this process has counted.
    pub counted: Option<CountSnapshot>,
    /// The rows that this process could not read, and left out.
    pub rows_bad: u64,
    /// The most memory of this process since the join began, beyond what it had then, if the join ran here and
    /// the system reports it.
    pub peak_bytes: Option<u64>,
}

/// Returns the plan of a join whose result has the columns of `schema`.
pub fn plan(job: &JoinJob, remote: Option<&Remote>, schema: &Schema, plan: String) -> String {
    if !job.json {
        return plan;
    }
    let column = |field: &FieldRef| {
        let (name, nullable) = (field.name(), field.is_nullable());
        json!({ "name": name, "type": field.data_type().to_string(), "nullable": nullable })
    };
    let columns: Vec<Value> = schema.fields().iter().map(column).collect();
    json!({ "type": job.query.join.name(), "workers": workers(remote), "columns": columns, "plan": plan }).to_string()
}

/// Returns the result of a join.
pub fn result(job: &JoinJob, remote: Option<&Remote>, done: &JoinResult) -> String {
    if job.json { result_json(job, remote, done) } else { result_text(job, done) }
}

/// Returns where the result is.
fn output(job: &JoinJob) -> String {
    let folder = job.output.as_ref().map(|output| output.display().to_string());
    job.url.clone().or(folder).unwrap_or_default()
}

fn workers(remote: Option<&Remote>) -> Vec<String> {
    remote.iter().flat_map(|remote| remote.workers.urls()).map(address_of).collect()
}

/// The folders of a result, with the workers that have written them, their rows and their bytes.
fn parts(written: &Written) -> impl Iterator<Item = (String, String, u64, u64)> {
    written.manifest.partitions.iter().zip(&written.workers).map(|(part, worker)| {
        let worker = worker.as_ref().map_or_else(|| "this process".to_owned(), address_of);
        (worker, format!("host-{:02}", part.partition), part.rows, part.bytes)
    })
}

fn result_json(job: &JoinJob, remote: Option<&Remote>, done: &JoinResult) -> String {
    let manifest = &done.written.manifest;
    let parts: Vec<Value> = parts(&done.written)
        .map(
            |(worker, folder, rows, bytes)| json!({ "worker": worker, "folder": folder, "rows": rows, "bytes": bytes }),
        )
        .collect();
    let counted = done.counted.map(|counted| {
        let [rows, bytes] = [counted.read.map(|read| read.rows), counted.read.map(|read| read.bytes)];
        json!({
            "rows_left": rows.left,
            "rows_right": rows.right,
            "bytes_left": bytes.left,
            "bytes_right": bytes.right,
            "bytes_of_files": counted.bytes_of_files(),
            "rows_dropped": counted.dropped,
            "build_bytes": counted.build_bytes,
            "spilled_bytes": counted.spilled_bytes,
        })
    });
    json!({
        "type": job.query.join.name(),
        "workers": workers(remote),
        "output": output(job),
        "rows_out": manifest.rows,
        "bytes_out": manifest.bytes,
        "files": manifest.file_names().count(),
        "rows_bad": done.rows_bad,
        "seconds": (done.written.elapsed.as_secs_f64() * 1e3).round() / 1e3,
        "parts": parts,
        "counted": counted,
        "peak_bytes": done.peak_bytes,
    })
    .to_string()
}

fn rows(count: u64) -> String {
    counted(count, "row")
}

fn result_text(job: &JoinJob, done: &JoinResult) -> String {
    let mut table = plain::list();
    let manifest = &done.written.manifest;
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    row("output", output(job));
    row("rows", HumanCount(manifest.rows).to_string());
    row("files", format!("{}, {}", manifest.file_names().count(), HumanBytes(manifest.bytes)));
    if done.rows_bad > 0 {
        row("bad rows", format!("{} (skipped)", HumanCount(done.rows_bad)));
    }
    if let Some(counted) = done.counted {
        for (input, read) in job.query.sides.iter().zip(counted.read.iter()) {
            row(&format!("read of {}", input.name), rows(read.rows));
        }
        if counted.dropped > 0 {
            row("dropped", format!("{} where they are read", rows(counted.dropped)));
        }
        if counted.spilled_bytes > 0 {
            row("spilled", HumanBytes(counted.spilled_bytes).to_string());
        }
    }
    if let Some(bytes) = done.peak_bytes {
        row("memory", HumanBytes(bytes).to_string());
    }
    row("time", format!("{:.2} s", done.written.elapsed.as_secs_f64()));
    if done.counted.is_some() {
        return table.trim_fmt();
    }
    let mut workers = plain::list();
    workers.set_header(["", "folder", "rows", "bytes"]);
    for (worker, folder, rows, bytes) in parts(&done.written) {
        workers.add_row([worker, folder, HumanCount(rows).to_string(), HumanBytes(bytes).to_string()]);
    }
    for column in workers.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n\n{}", table.trim_fmt(), workers.trim_fmt())
}
