//! The results, as in the files.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flink::FlinkLine;
use crate::{
    pages::{Cell, Line, Peak, Variant, csv},
    reproduce::origin::Origin,
};

/// All measurements, as in the JSON file.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    /// The settings that all cells have in common.
    pub(super) setting: String,
    /// The machine, the versions, the command and the seed.
    pub(super) origin: Origin,
    /// The size of a quick run; `None` if it was not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quick: Option<String>,
    pub(super) paper_machine: &'static str,
    /// The number of threads in the figures that have one number.
    pub(super) cores: usize,
    /// The reason why there are no counters; `None` if there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_counters: Option<String>,
    /// Figures 4.1 to 4.5.
    pub(super) cells: Vec<Line>,
    /// Figure 4.6.
    pub(super) memory: Vec<MemoryLine>,
    /// Tuples of any size.
    pub(super) sizes: Vec<Line>,
    /// Streams.
    pub(super) streams: Vec<Line>,
    pub(super) flink: Vec<FlinkLine>,
    /// The missing measurements, and the reasons.
    pub(super) skipped: Vec<String>,
}

/// The peak memory of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MemoryLine {
    pub(super) variant: Variant,
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) page_bytes: usize,
    /// Units of 1024 x 1024 bytes.
    pub(super) peak_mb: f64,
    /// The part of it beyond what the tuples take on pages.
    pub(super) beyond_mb: f64,
}

impl MemoryLine {
    pub(super) fn new(cell: Cell, peak: &Peak) -> Self {
        let mb = |bytes: f64| (bytes / f64::from(1 << 20) * 10.0).round() / 10.0;
        let on_pages = cell.tuples as f64 * f64::from(cell.tuple_bytes + 8);
        Self {
            variant: peak.variant,
            cell,
            page_bytes: peak.page_bytes,
            peak_mb: mb(peak.bytes as f64),
            beyond_mb: mb(peak.bytes as f64 - on_pages),
        }
    }
}

impl Results {
    /// Returns all lines as comma-separated values. The first column is the name of the line's part
    /// in the JSON file.
    pub(super) fn csv(&self) -> serde_json::Result<String> {
        let mut rows = Vec::new();
        for (part, lines) in [("cells", &self.cells), ("sizes", &self.sizes), ("streams", &self.streams)] {
            rows.extend(lines.iter().map(|line| named(part, line.fields())));
        }
        for line in &self.memory {
            rows.push(named("memory", fields(line)?));
        }
        for line in &self.flink {
            rows.push(named("flink", fields(line)?));
        }
        Ok(csv(rows))
    }
}

fn named(part: &str, mut fields: Vec<(String, Value)>) -> Vec<(String, Value)> {
    fields.insert(0, ("part".to_owned(), part.into()));
    fields
}

fn fields(line: &impl Serialize) -> serde_json::Result<Vec<(String, Value)>> {
    let value = serde_json::to_value(line)?;
    Ok(value.as_object().cloned().unwrap_or_default().into_iter().collect())
}
