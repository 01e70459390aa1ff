//! The page of figures.

mod costs;
mod joins;
mod links;
mod network;

use std::collections::BTreeSet;

use annulus_terminal::{machine::cores, units::counted};

use super::{
    args::{CycloJoinArgs, Figure},
    paper,
    record::{Record, What},
};
use crate::{
    join::Line,
    reproduce::{self, origin::Origin},
};

/// The content of the page.
pub(super) struct Page<'a> {
    pub(super) origin: &'a Origin,
    pub(super) args: &'a CycloJoinArgs,
    pub(super) records: &'a [Record],
    /// The cells that were not measured, and the reasons.
    pub(super) absent: &'a BTreeSet<String>,
}

impl Page<'_> {
    /// Returns the page with all measured figures and the paper's numbers.
    pub(super) fn html(&self) -> String {
        let mut sections: Vec<_> = self.args.figures.iter().map(|&figure| self.section(figure)).collect();
        sections.extend(reproduce::not_measured(self.absent));
        sections.push("<h2>All measurements</h2>\n<p>cyclo-join.csv, beside this page, has them.</p>".to_owned());
        let title = "A spinning join: the paper's figures, measured with Annulus";
        reproduce::page(title, &self.lead(), self.args.quick_size(), sections)
    }

    fn lead(&self) -> String {
        format!(
            "{}. {}. All hosts are threads of one process on {}. 'One at a time' means that each host joined while no \
             other did, on one thread, and a second thread sent what the other hosts send. It shows the work of a \
             host, and not how fast a ring is. 'All at once' means that the hosts shared the cores. Values are \
             medians of {}, and every result was compared with an independent answer. A join whose setup or \
             revolution took under 1 ms is too short to measure and has no bar. The paper's numbers, where its text \
             has them, are from other hardware ({}): compare shapes, not numbers.",
            self.origin.cpu(),
            self.origin.line(),
            counted(cores() as u64, "core"),
            counted(self.args.rounds as u64, "round"),
            paper::MACHINES
        )
    }

    fn section(&self, figure: Figure) -> String {
        let lines = self.joins(figure);
        match figure {
            Figure::Cost => costs::costs(self.records),
            Figure::Transfer => links::transfer(self.records),
            Figure::Hash => {
                [joins::fixed("7", "hash join", &lines), joins::setup(&lines), joins::work(&lines)].concat()
            }
            Figure::HashGrowing => [joins::growing("8", "hash join", &lines), joins::paper_hash()].concat(),
            Figure::Zipf => joins::zipf(&lines),
            Figure::Sort => joins::fixed("10", "sort-merge join", &lines),
            Figure::SortGrowing => [
                joins::growing("11", "sort-merge join", &lines),
                joins::paper_sort(),
                network::waiting(&lines, self.records),
            ]
            .concat(),
            Figure::Links => links::links(&lines),
        }
    }

    /// Returns the joins of a figure.
    fn joins(&self, figure: Figure) -> Vec<&Line> {
        let joins = self.records.iter().filter(|record| record.figure == figure);
        joins.filter_map(|record| if let What::Join(line) = &record.what { Some(&**line) } else { None }).collect()
    }
}

fn million(rows: u64) -> String {
    format!("{} million", rows as f64 / 1e6)
}

fn hosts(hosts: u16) -> String {
    counted(hosts.into(), "host")
}

/// Returns a time of a join, unless the join was too short to measure.
fn measured(line: &Line, value: f64) -> Option<f64> {
    (!line.too_short).then_some(value)
}
