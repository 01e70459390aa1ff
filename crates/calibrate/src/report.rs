//! The profile as a table.

use annulus_datafusion::{
    config::{DataPath, Strategy, Variant},
    profile::{Cell, Cost},
};
use annulus_exchange::Choice;
use annulus_terminal::plain;
use comfy_table::Table;
use datafusion::common::stats::Precision;

/// Returns the table of `cells`, each with what auto takes without a profile. Those where nothing
/// was measurable are left out.
pub fn table(cells: &[(Cell, Choice)]) -> Table {
    let header = ["rows", "B/row", "shape", "reads", "best", "ns/row", "open us", "by rule", "rule/best", "stock/best"];
    plain::table(&header, &[0, 4, 7], cells.iter().filter_map(|(cell, choice)| line(cell, *choice)))
}

fn line(cell: &Cell, choice: Choice) -> Option<Vec<String>> {
    let ns = |cost: &Cost| cost.ns(Precision::Exact(cell.rows));
    let ours = cell.costs.iter().filter(|cost| cost.variant.strategy != Strategy::Stock);
    let best = ours.min_by(|one, other| ns(one).total_cmp(&ns(other)))?;
    let rule = Variant::new(Strategy::Exchange(choice.strategy), choice.path.unwrap_or_default());
    let ratio = |variant: Variant| {
        let cost = cell.costs.iter().find(|cost| cost.variant == variant);
        cost.map_or("-".to_owned(), |cost| format!("{:.2}", ns(cost) / ns(best)))
    };
    Some(vec![
        format!("{:?}", cell.layout).to_lowercase(),
        cell.row_bytes.to_string(),
        format!("{}x{}", cell.inputs, cell.outputs),
        if cell.reads { "yes" } else { "no" }.to_owned(),
        best.variant.to_string(),
        format!("{:.1}", best.row_ns),
        format!("{:.0}", best.open_ns / 1e3),
        rule.to_string(),
        ratio(rule),
        ratio(Variant::new(Strategy::Stock, DataPath::Auto)),
    ])
}
