//! Figure 11 bound by the network.

use annulus_terminal::report::{
    chart::{BarGroup, bars},
    page::table,
};

use super::hosts;
use crate::{
    join::Line,
    reproduce::cyclo::{
        network::{AGREES, Shaped},
        paper,
        record::{Record, What},
    },
    statistics::TOO_SHORT,
};

const MODEL: &str = "<p>The model: a host joins each of the n fragments of a revolution in the time j. Over each link \
    come the m fragments of all other hosts, each in the time t: its bytes and their headers, divided by the rate of \
    the link. A revolution takes the longer of n j and m t, and the host waits for the rest of the time: \
    1 - n j / (m t) if the network is the bound, 0 otherwise. In the paper's largest ring, 9.6 GB cross each link at \
    1.1 GB/s in the 8.7 s of a revolution, of which 6.4 s are joins: a share of 26 %. j is measured with one host at a \
    time, and not fitted to the measured waiting.</p>";

/// Draws waiting with all hosts at once, over links without and with a limit, beside the
/// prediction.
pub(super) fn bound(lines: &[&Line], records: &[Record]) -> String {
    let shaped: Vec<_> = records
        .iter()
        .filter_map(|record| if let What::Shaped(shaped) = &record.what { Some(shaped) } else { None })
        .collect();
    let together: Vec<_> = lines.iter().copied().filter(|line| !line.one_at_a_time).collect();
    let group = |line: &&Line| {
        let limited = shaped.iter().find(|shaped| shaped.hosts == line.hosts && !shaped.too_short);
        let waiting = |share: Option<f64>| share.map(|share| 100.0 * share);
        BarGroup {
            label: hosts(line.hosts),
            values: vec![
                waiting(limited.map(|shaped| shaped.waiting_share)),
                waiting(limited.map(|shaped| shaped.model.model_waiting_share)),
                waiting((!line.too_short).then_some(line.waiting_share)),
            ],
            note: if line.too_short { TOO_SHORT.to_owned() } else { String::new() },
        }
    };
    let what = if shaped.is_empty() {
        "The links have no limit: this machine could not make a network with one, see 'Not measured'.".to_owned()
    } else {
        format!(
            "Each host has a network of its own, and a link to the next one whose rate is limited (tbf). At the \
             chosen rates the transfer takes four times as long as the cores of this machine need for the joins of all \
             hosts. A measured share within {:.0} % of the predicted one agrees with it.",
            AGREES * 100.0
        )
    };
    let published = 100.0 * paper::SORT_WAITING_S / (paper::SORT_JOIN_S + paper::SORT_WAITING_S);
    format!(
        "<h3>Bound by the network: waiting, all hosts at once over TCP</h3>\n<p>{what} Without a limit, hosts wait \
         for each other and for cores. The line is at the paper's share for six hosts, on its own \
         hardware.</p>\n{MODEL}\n{}\n{}",
        bars(
            "Waiting",
            &["limited", "predicted", "without a limit"],
            "%",
            Some(published),
            &together.iter().map(group).collect::<Vec<_>>()
        ),
        if shaped.is_empty() { String::new() } else { numbers(&shaped) }
    )
}

/// Returns a table of the model's parts.
fn numbers(shaped: &[&Shaped]) -> String {
    let row = |shaped: &&Shaped| {
        let model = &shaped.model;
        let (measured, agrees) = if shaped.too_short {
            (TOO_SHORT.to_owned(), TOO_SHORT)
        } else {
            (format!("{:.1} %", 100.0 * shaped.waiting_share), if shaped.agrees { "yes" } else { "no" })
        };
        vec![
            hosts(shaped.hosts),
            format!("{:.3}", model.gbit_per_s),
            format!("{:.3}", model.link_gb),
            format!("{:.0}", model.link_fragments),
            format!("{:.2}", 1e3 * model.fragment_join_s),
            format!("{:.2}", 1e3 * model.fragment_transfer_s),
            format!("{:.3}", model.model_join_s),
            format!("{:.3}", model.model_transfer_s),
            format!("{:.3}", shaped.join_s),
            format!("{:.1} %", 100.0 * model.model_waiting_share),
            measured,
            agrees.to_owned(),
        ]
    };
    let header = [
        "",
        "Gbit/s of a link",
        "GB over it",
        "m",
        "j, ms",
        "t, ms",
        "n j, s",
        "m t, s",
        "measured revolution, s",
        "waiting, predicted",
        "waiting, measured",
        "agrees",
    ];
    table(&header, &shaped.iter().map(row).collect::<Vec<_>>())
}
