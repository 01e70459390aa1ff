//! Where the time on cores goes: figure 3.

use annulus_charts::{
    bars::{BarGroup, bars},
    page::table,
};

use annulus_terminal::statistics::TOO_SHORT;

use crate::{
    reproduce::cyclo::{
        paper,
        record::{Record, What},
    },
    roundabout::{
        Transport,
        cost::{Cost, MEMCPY},
    },
};

/// The parts of a way's time on cores, in seconds for 1e9 bytes.
#[derive(Clone, Copy)]
struct Parts {
    application: f64,
    copying: f64,
    kernel: f64,
    user: f64,
}

impl Parts {
    /// Returns the parts of `cost`. `copying` is the time in which the kernel copies, from a
    /// sender and to a receiver.
    fn from_cost(cost: &Cost, copying: Option<f64>) -> Self {
        let copying = if copies(&cost.way) { copying.unwrap_or(0.0).min(cost.system_s) } else { 0.0 };
        Self { application: cost.application_s, copying, kernel: cost.system_s - copying, user: cost.user_s }
    }

    /// Returns the share of the transfer that is copying, without the application, in percent.
    fn copying_percent(&self) -> Option<f64> {
        let transfer = self.copying + self.kernel + self.user;
        (transfer > 0.0).then(|| 100.0 * self.copying / transfer)
    }
}

/// Returns whether the kernel copies each byte of this way from the sender and to the receiver.
fn copies(way: &str) -> bool {
    [Transport::Plain.name(), Transport::Tcp.name(), "ofi-tcp"].contains(&way)
}

/// Returns an estimate of the seconds in which the kernel copies 1e9 bytes twice: as long as copies
/// in memory take.
fn copying(costs: &[&Cost]) -> Option<f64> {
    costs.iter().find(|cost| cost.way == MEMCPY).map(|cost| 2.0 * cost.sending_s)
}

/// Draws the parts of each way, beside the published share.
pub(super) fn costs(records: &[Record]) -> String {
    let costs: Vec<_> = records
        .iter()
        .filter_map(|record| if let What::Cost(cost) = &record.what { Some(cost) } else { None })
        .collect();
    let copying = copying(&costs);
    let group = |cost: &&Cost| {
        let Parts { application, copying, kernel, user } = Parts::from_cost(cost, copying);
        let values = [application, copying, kernel, user].map(|value| (!cost.too_short).then_some(value));
        let note = if cost.too_short { TOO_SHORT.to_owned() } else { String::new() };
        BarGroup { label: cost.way.clone(), values: values.into(), note }
    };
    let series = ["application", "copying (estimate)", "rest of the kernel", "link, outside"];
    let shown: Vec<_> = costs.iter().copied().filter(|cost| cost.way != MEMCPY).collect();
    let shares: Vec<_> = shown.iter().map(|cost| (cost.way.clone(), share(cost, copying))).collect();
    let published = [
        ("published: TCP in the kernel".to_owned(), Some(paper::COPYING_PERCENT)),
        ("published: RDMA".to_owned(), Some(0.0)),
    ];
    let share_of = |(label, share): (String, Option<f64>)| BarGroup { label, values: vec![share], note: String::new() };
    let shares: Vec<_> = shares.into_iter().chain(published).map(share_of).collect();
    let elements = costs.first().map_or(0, |cost| cost.element_bytes >> 10);
    format!(
        "<h2>Figure 3: where the time on cores goes</h2>\n<p>A transfer from host to host in elements of {elements} \
         KiB. Seconds on cores of all threads, for 10<sup>9</sup> bytes. A transfer that took less than 0.1 s on \
         cores is too short and has no bar.</p>\n{EXPLAINED}\n{}\n<h3>Copying, in percent of the transfer without the \
         application</h3>\n<p>The paper's text has two statements: with TCP in the kernel, moving data is 'roughly 50 \
         %' of the time and the protocol 'a minor role'; with RDMA no core touches the data. They are from other \
         hardware, where a network card sends; here, the kernel also does the work of the card.</p>\n{}\n{}",
        bars("Seconds on cores for 10^9 bytes", &series, "s", None, &shown.iter().map(group).collect::<Vec<_>>()),
        bars("Copying", &["copying"], "%", None, &shares),
        all(&costs, copying)
    )
}

const EXPLAINED: &str = "<ul>\n\
    <li>application: every byte is written and checked; measured with the clock of the thread.</li>\n\
    <li>kernel, copying: an estimate. TCP copies every byte from the sender's memory and to the receiver's. Each copy \
    is taken to last as long as 'memcpy', which copies the same elements to 4 MiB of memory of one thread.</li>\n\
    <li>kernel, the rest: the system's time of the process without copying: protocol, buffers, wake-ups and changes \
    of threads. Work that the kernel does on its own threads is missing.</li>\n\
    <li>link, outside: all other time outside the kernel, such as the ring's bookkeeping and polling. Copies in shared \
    memory are here.</li>\n</ul>";

fn share(cost: &Cost, copying: Option<f64>) -> Option<f64> {
    Parts::from_cost(cost, copying).copying_percent().filter(|_| !cost.too_short)
}

/// Returns a table of what was measured.
fn all(costs: &[&Cost], copying: Option<f64>) -> String {
    let row = |cost: &&Cost| {
        let Parts { copying, kernel, .. } = Parts::from_cost(cost, copying);
        let seconds = |value: f64| if cost.too_short { TOO_SHORT.to_owned() } else { format!("{value:.3}") };
        vec![
            cost.way.clone(),
            seconds(cost.application_s),
            if cost.way == MEMCPY { "-".to_owned() } else { seconds(copying) },
            if cost.way == MEMCPY { "-".to_owned() } else { seconds(kernel) },
            seconds(cost.user_s),
            seconds(cost.sending_s),
            seconds(cost.receiving_s),
            format!("{:.2}", cost.moved),
            if cost.too_short { TOO_SHORT.to_owned() } else { format!("{:.0}", cost.switches) },
        ]
    };
    let header = [
        "",
        "application s",
        "kernel, copying s",
        "kernel, the rest s",
        "link, outside s",
        "calls that send s",
        "calls that receive s",
        "bytes in these calls / bytes",
        "changes of threads",
    ];
    format!(
        "<p>The table has the time in the link's own calls to sockets, too, by the clock of the thread. Libfabric's \
         calls are not among them.</p>\n{}",
        table(&header, &costs.iter().map(row).collect::<Vec<_>>())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::cyclo::Figure;

    fn cost(way: &str, sending_s: f64, too_short: bool) -> Record {
        let cost = Cost {
            way: way.to_owned(),
            element_bytes: 1 << 20,
            elements: 100,
            application_s: 0.125,
            user_s: 0.01,
            system_s: 0.5,
            sending_s,
            receiving_s: 0.2,
            moved: 2.0,
            switches: 1000.0,
            too_short,
        };
        Record { figure: Figure::Cost, what: What::Cost(cost) }
    }

    #[test]
    fn copying_takes_as_long_as_two_copies_in_memory() {
        let records = [cost("plain", 0.28, false), cost("tcp", 0.29, false), cost(MEMCPY, 0.18, false)];
        let page = costs(&records);
        // 0.36 of the 0.5 seconds in the kernel, and 0.14 are left.
        assert_eq!(page.matches("<td>0.360</td><td>0.140</td>").count(), 2, "{page}");
        assert_eq!(page.matches("<td>-</td><td>-</td>").count(), 1, "{page}");
        // 0.36 / 0.51.
        assert_eq!(page.matches("70.6 %").count(), 2, "{page}");
        assert!(page.contains("50.0 %"), "{page}");
    }

    #[test]
    fn a_transfer_that_is_too_short_has_no_bar() {
        let page = costs(&[cost("plain", 0.28, true), cost(MEMCPY, 0.18, true)]);
        assert!(page.contains(TOO_SHORT) && !page.contains("0.125") && !page.contains("0.360"), "{page}");
    }
}
