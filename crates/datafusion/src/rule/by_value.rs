//! Comparisons that DataFusion makes by the bits or the text of a value, where `=` takes more values
//! for equal.

use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode},
    },
    datasource::{listing::ListingTable, source_as_provider},
    error::Result,
    logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, TableScan, expr::InList, expr_rewriter::NamePreserver},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// Adds the other zero to lists of `IN` that have one of 0.0 and -0.0, and keeps tables of files from
/// looking for folders by the text of a number.
///
/// DataFusion looks long lists up by the bits of the values, while `=` takes one zero for the other.
/// And for `x = 1` it lists the files below `x=1`, where a table may have `x=01`, or `x=-0.0` for 0.0.
#[derive(Debug)]
pub(crate) struct CompareByValue;

impl OptimizerRule for CompareByValue {
    fn name(&self) -> &str {
        "CompareByValue"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let folders = match &plan {
            LogicalPlan::TableScan(scan) if !scan.filters.is_empty() => numeric_folders(scan),
            _ => Vec::new(),
        };
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| with_both(listed(expr, &folders)))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    }
}

/// Returns the columns of a table that are names of folders, but no text.
fn numeric_folders(scan: &TableScan) -> Vec<String> {
    let provider = source_as_provider(&scan.source).ok();
    let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<ListingTable>());
    let columns = table.map(|table| table.options().table_partition_cols.as_slice()).unwrap_or_default();
    columns.iter().filter(|(_, data_type)| !data_type.is_string()).map(|(name, _)| name.clone()).collect()
}

/// Returns a comparison of a folder's name with one value as a list, by which no folder is looked for.
fn listed(expr: Expr, folders: &[String]) -> Transformed<Expr> {
    let is_folder = |expr: &Expr| matches!(expr, Expr::Column(column) if folders.contains(&column.name));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
            if is_folder(&left) && matches!(*right, Expr::Literal(..)) =>
        {
            Transformed::yes(Expr::InList(InList::new(left, vec![*right], false)))
        }
        other => Transformed::no(other),
    }
}

fn with_both(expr: Transformed<Expr>) -> Result<Transformed<Expr>> {
    let Transformed { data: Expr::InList(mut list), transformed, .. } = expr else { return Ok(expr) };
    let others = list.list.iter().filter_map(other_zero).filter(|zero| !list.list.contains(zero));
    let others: Vec<Expr> = others.collect();
    let is_changed = transformed || !others.is_empty();
    list.list.extend(others);
    Ok(Transformed::new_transformed(Expr::InList(list), is_changed))
}

/// Returns the other zero, if the literal is one.
fn other_zero(item: &Expr) -> Option<Expr> {
    let Expr::Literal(value, metadata) = item else { return None };
    let is_zero = match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    };
    is_zero.then(|| value.arithmetic_negate().ok())?.map(|other| Expr::Literal(other, metadata.clone()))
}
