//! Figure 11 over links of a limited rate.

use annulus_charts::{
    bars::{BarGroup, bars},
    page::table,
};

use annulus_terminal::statistics::TOO_SHORT;

use super::hosts;
use crate::{
    join::Line,
    reproduce::cyclo::{
        cells::LIMITS,
        network::{AGREES, LimitedRing},
        paper,
        record::{Record, What},
    },
};

const MODEL: &str = "<p>The prediction simulates a ring from its parts, each measured without the other: the joins \
    of one host at a time (J seconds), and a revolution of all hosts over the same links whose fragments nobody joins \
    (M seconds).</p>\n<ul>\n\
    <li>Hosts follow the ring's own protocol, with its buffers and credits.</li>\n\
    <li>A link moves one fragment after the other, each in the same time, and a host joins one after the other.</li>\n\
    <li>A host waits while it has no fragment to join, to the end of its revolution.</li>\n</ul>\n<p>This is nearly \
    the paper's balance, 1 - J / M: in its largest ring, 9.6 GB cross each link at 1.1 GB/s in 8.7 s, of which 6.4 s \
    are joins, and hosts wait for 26 % of the time.</p>";

/// Draws waiting with all hosts at once, over links without and with a limit, beside the
/// prediction.
pub(super) fn waiting(lines: &[&Line], records: &[Record]) -> String {
    let limited: Vec<_> = records
        .iter()
        .filter_map(|record| if let What::LimitedRing(limited) = &record.what { Some(limited) } else { None })
        .collect();
    let together: Vec<_> = lines.iter().copied().filter(|line| !line.one_at_a_time).collect();
    let group = |line: &&Line| BarGroup {
        label: hosts(line.hosts),
        values: vec![(!line.too_short).then_some(100.0 * line.waiting_share)],
        note: if line.too_short { TOO_SHORT.to_owned() } else { String::new() },
    };
    let without = bars(
        "Waiting without a limit",
        &["without a limit"],
        "%",
        Some(published()),
        &together.iter().map(group).collect::<Vec<_>>(),
    );
    let with = if limited.is_empty() {
        "<p>The links have no limit: this machine could not make a network with one, see 'Not measured'.</p>".to_owned()
    } else {
        let charts: String = LIMITS.iter().map(|&times| chart(times, &limited)).collect();
        format!(
            "<p>Each host has a network of its own, and a link to the next one whose rate is limited (tbf). The rates \
             are chosen so that the transfer takes 1.36 times as long as the joins of a host, as in the paper's \
             largest ring, 2 times and 4 times. Where the machine has fewer than two cores for each host, joins last \
             longer by pauses ('slower'), as on a slower core of the host's own, so that all joins take half of the \
             cores. Hosts send their fragments as often as makes a revolution take about 2 s. A measured share agrees \
             with the predicted one within {:.0} % of it. 'In the rounds' has the least and the most of a round: a \
             difference within it may be chance. 'Others' is the part of the cores' time that other processes used in \
             the most disturbed round.</p>\n{MODEL}\n{charts}\n{}",
            AGREES * 100.0,
            numbers(&limited)
        )
    };
    format!(
        "<h3>Waiting, all hosts at once over TCP</h3>\n<p>Without a limit, hosts wait for each other and for cores. \
         The line is at the paper's share for six hosts, on its own hardware.</p>\n{without}\n<h3>Links of a \
         limited rate</h3>\n{with}"
    )
}

/// Returns the paper's share of waiting in its largest ring, in percent.
fn published() -> f64 {
    100.0 * paper::SORT_WAITING_S / (paper::SORT_JOIN_S + paper::SORT_WAITING_S)
}

/// Draws the rings with one of the limits.
fn chart(times: f64, limited: &[&LimitedRing]) -> String {
    let group = |ring: &&LimitedRing| {
        let share = |share: f64| (!ring.too_short).then_some(100.0 * share);
        BarGroup {
            label: hosts(ring.hosts),
            values: vec![share(ring.waiting_share), share(ring.model.model_waiting_share)],
            note: if ring.too_short { TOO_SHORT.to_owned() } else { String::new() },
        }
    };
    let groups: Vec<_> = limited.iter().filter(|ring| ring.limit == times).map(group).collect();
    let title = format!("Waiting, the transfer takes {times} x the joins");
    bars(&title, &["measured", "predicted"], "%", None, &groups)
}

/// Returns a table of the model's parts, of predictions and measurements.
fn numbers(limited: &[&LimitedRing]) -> String {
    let row = |ring: &&LimitedRing| {
        let LimitedRing { transfer, model, .. } = ring;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let unless_short = |text: String| if ring.too_short { TOO_SHORT.to_owned() } else { text };
        vec![
            hosts(ring.hosts),
            format!("{} x", ring.limit),
            format!("{:.1} x", ring.slowness),
            format!("{:.3}", ring.gbit_per_s),
            format!("{:.3}", ring.link_s),
            format!("{:.3}", transfer.transfer_s),
            format!("{:.3}", model.model_join_s),
            format!("{:.3}", model.model_revolution_s),
            format!("{:.3}", ring.join_s),
            percent(model.model_waiting_share),
            unless_short(percent(ring.waiting_share)),
            unless_short(format!("{} to {}", percent(ring.waiting_least_share), percent(ring.waiting_most_share))),
            unless_short(ring.difference.map_or("-".to_owned(), |part| format!("{:+.1} %", 100.0 * part))),
            unless_short(if ring.agrees { "yes" } else { "no" }.to_owned()),
            percent(ring.others_share),
        ]
    };
    let header = [
        "",
        "transfer / joins",
        "slower",
        "Gbit/s of a link",
        "bytes / rate, s",
        "M, s",
        "J, s",
        "revolution, predicted, s",
        "revolution, measured, s",
        "waiting, predicted",
        "waiting, measured",
        "in the rounds",
        "difference",
        "agrees",
        "others",
    ];
    table(&header, &limited.iter().map(row).collect::<Vec<_>>())
}
