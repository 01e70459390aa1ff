//! Figure 7: the throughput of rings by K.

use annulus_charts::page;

use annulus_terminal::statistics::TOO_SHORT;

use super::{
    super::{
        Part, Results,
        paper::{self, GroupsLead},
    },
    chart,
};
use crate::{exchange::Line, reproduce::range};

const RINGS: [&str; 2] = ["ring", "paper-ring"];

/// Draws throughput by the size of rows and K, and lists the published leads beside ours.
pub(super) fn figure_7(results: &Results) -> String {
    let of = RINGS.map(|ring| results.lines(Part::Groups).filter(|line| line.strategy == ring).collect::<Vec<_>>());
    let chart = |(ring, lines): (&str, &Vec<&Line>)| {
        let title = format!("Throughput of {ring} by the size of rows and K");
        chart(&title, "bytes of a row", lines, |line| format!("K = {}", line.groups), |line| line.row_bytes as usize)
    };
    let charts: String = RINGS.into_iter().zip(&of).map(chart).collect();
    let row = |published: &GroupsLead| {
        let &GroupsLead { machine, row_bytes, ahead, behind, percent } = published;
        let mut row = vec![
            machine.to_owned(),
            words(row_bytes),
            format!("{} over {}", words(ahead), words(behind)),
            percent.into(),
        ];
        row.extend(of.iter().map(|lines| measured(lines, published)));
        row
    };
    let header = ["published", "row bytes", "K", "lead there, %", "ring here, %", "paper-ring here, %"];
    format!(
        "<h2>Figure 7: K</h2>{charts}<p>Published in section 4.4, on other hardware: by how many percent a K is ahead \
         of another one, or of the fastest of several, at full core count. Here: the least and the most over these \
         rows and K. The paper's points for K = 1 are those of table 3.</p>{}",
        page::table(&header, &paper::FIGURE_7.iter().map(row).collect::<Vec<_>>())
    )
}

fn words(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns a ring's own lead where the paper has one: the least and the most, in percent.
fn measured(lines: &[&Line], published: &GroupsLead) -> String {
    let at = |bytes: u32, groups: usize| lines.iter().find(|line| (line.row_bytes, line.groups) == (bytes, groups));
    let speed = |bytes, groups| at(bytes, groups).and_then(|line| line.measured_gb_per_s());
    let mut leads = Vec::new();
    for &bytes in published.row_bytes {
        let others: Option<Vec<f64>> = published.behind.iter().map(|&groups| speed(bytes, groups)).collect();
        let Some(fastest) = others.and_then(|others| others.into_iter().reduce(f64::max)) else { continue };
        let ahead = published.ahead.iter().filter_map(|&groups| speed(bytes, groups));
        leads.extend(ahead.map(|speed| 100.0 * (speed / fastest - 1.0)));
    }
    let measured = || lines.iter().any(|line| published.row_bytes.contains(&line.row_bytes));
    range(&leads, |lead| format!("{lead:+.0}")).unwrap_or_else(|| if measured() { TOO_SHORT } else { "-" }.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(row_bytes: u32, groups: usize, gb_per_s: f64, too_short: bool) -> Line {
        let line = json!({
            "strategy": "ring", "m": 2, "n": 2, "rows": 8192, "row_bytes": row_bytes, "sizes": "uniform",
            "keys": "uniform", "groups": groups, "slots": 2, "domains": 1, "pinned": true, "batches": 10,
            "gb_per_s": gb_per_s, "spread": 0.0, "too_short": too_short, "limit": 0.5, "first_ms": 0.1,
            "peak_mb": 1.0, "ops_per_batch": 1.0, "consumer_ops_per_batch": 2.0, "handoffs_per_batch": 1.0,
            "locks_per_batch": 0.0, "consumer_locks_per_batch": 0.0, "wakeups_per_batch": 0.5,
            "switches_per_batch": null,
        });
        serde_json::from_value(line).unwrap()
    }

    const LEAD: GroupsLead =
        GroupsLead { machine: "m", row_bytes: &[8, 16], ahead: &[2, 3], behind: &[1, 4], percent: "9 to 17" };

    #[test]
    fn a_lead_is_over_the_fastest_of_the_others() {
        let of = |groups_gb_per_s: [f64; 4], short: bool| {
            let cells = (1..).zip(groups_gb_per_s).map(move |(groups, gb_per_s)| line(8, groups, gb_per_s, short));
            cells.collect::<Vec<_>>()
        };
        let lines = of([2.0, 2.5, 1.8, 1.0], false);
        assert_eq!(measured(&lines.iter().collect::<Vec<_>>(), &LEAD), "-10 to +25");
        let short = of([2.0, 2.5, 1.8, 1.0], true);
        assert_eq!(measured(&short.iter().collect::<Vec<_>>(), &LEAD), TOO_SHORT);
        assert_eq!(measured(&lines.iter().collect::<Vec<_>>(), &GroupsLead { row_bytes: &[64], ..LEAD }), "-");
    }
}
