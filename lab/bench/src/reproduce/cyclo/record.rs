//! Lines of the JSON and CSV files.

use serde::Serialize;
use serde_json::Value;

use super::{args::Figure, network::LimitedRing};
use crate::{
    join,
    roundabout::{self, cost::Cost},
};

/// A measurement for a figure.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) figure: Figure,
    pub(super) what: What,
}

/// A join around a ring, a transfer from host to host, by its throughput or by its costs, or a join
/// over links of a limited rate.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum What {
    Join(Box<join::Line>),
    Transfer(roundabout::Line),
    Cost(Cost),
    LimitedRing(LimitedRing),
}

/// Columns of the CSV file.
const COLUMNS: [&str; 55] = [
    "figure",
    "data",
    "by",
    "link",
    "hosts",
    "threads",
    "zipf",
    "one_at_a_time",
    "rows",
    "probe_rows",
    "matches",
    "setup_s",
    "setup_cpu_s",
    "join_s",
    "join_cpu_s",
    "waiting_share",
    "waiting_least_share",
    "waiting_most_share",
    "waiting_first_share",
    "waiting_last_share",
    "total_s",
    "host_probed",
    "host_compared",
    "host_mb",
    "fragments",
    "fragments_mb",
    "peak_mb",
    "cpu_load",
    "cpu_s",
    "way",
    "element_bytes",
    "elements",
    "gb_per_s",
    "spread",
    "application_s",
    "user_s",
    "system_s",
    "sending_s",
    "receiving_s",
    "moved",
    "switches",
    "limit",
    "times",
    "slowness",
    "gbit_per_s",
    "link_gb",
    "link_s",
    "transfer_s",
    "model_join_s",
    "model_revolution_s",
    "model_waiting_share",
    "difference",
    "agrees",
    "others_share",
    "too_short",
];

impl Record {
    fn value(&self) -> serde_json::Result<Value> {
        let mut value = serde_json::to_value(&self.what)?;
        value["figure"] = self.figure.number().into();
        Ok(value)
    }
}

/// Returns one JSON object per line: first the setting, then each measurement.
pub(super) fn json_lines(setting: &Value, records: &[Record]) -> serde_json::Result<String> {
    let mut text = format!("{setting}\n");
    for record in records {
        text += &format!("{}\n", record.value()?);
    }
    Ok(text)
}

/// Returns the same as comma-separated values, without the setting. A missing value is empty.
pub(super) fn csv(records: &[Record]) -> serde_json::Result<String> {
    let mut text = COLUMNS.join(",") + "\n";
    for record in records {
        let value = record.value()?;
        let cell = |name: &&str| match value.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(word)) => word.clone(),
            Some(other) => other.to_string(),
        };
        text += &(COLUMNS.iter().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    Ok(text)
}
