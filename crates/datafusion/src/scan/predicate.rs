//! Conditions of a query, as a scan asks them.

use std::sync::Arc;

use annulus_parquet::{Conjunct, Predicate};
use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, RecordBatch},
    datatypes::{Schema, SchemaRef},
    error::ArrowError,
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{
            BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr, TryCastExpr,
        },
        utils::{collect_columns, reassign_expr_columns},
    },
};

/// A condition over columns of a file, of its own type.
#[derive(Debug)]
struct Condition {
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl Predicate for Condition {
    fn evaluate(&self, columns: &[ArrayRef]) -> std::result::Result<BooleanArray, ArrowError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns.to_vec())?;
        let rows = batch.num_rows();
        let answers = self.expr.evaluate(&batch).and_then(|answers| answers.into_array(rows));
        let answers = answers.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        match answers.as_boolean_opt() {
            Some(answers) => Ok(answers.clone()),
            None => Err(ArrowError::ComputeError(format!("a condition is of type {}", answers.data_type()))),
        }
    }
}

/// Returns the columns of a file that a condition reads, by their places in its schema.
pub(super) fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns: Vec<_> = collect_columns(expr).iter().map(Column::index).collect();
    columns.sort_unstable();
    columns
}

/// Returns a condition over columns of a file as a scan asks it. `scanned` are the columns
/// of the file that the scan reads, by their places in its schema.
///
/// # Errors
/// If the condition names a column that the file does not have.
pub(super) fn conjunct(expr: Arc<dyn PhysicalExpr>, file: &Schema, scanned: &[usize]) -> Result<Arc<Conjunct>> {
    let may_fail = may_fail(&expr)?;
    condition(expr, file, scanned, may_fail)
}

/// Returns a condition of a join above, which cannot fail.
///
/// # Errors
/// If the condition names a column that the file does not have.
pub(super) fn key(expr: Arc<dyn PhysicalExpr>, file: &Schema, scanned: &[usize]) -> Result<Arc<Conjunct>> {
    condition(expr, file, scanned, false)
}

fn condition(expr: Arc<dyn PhysicalExpr>, file: &Schema, scanned: &[usize], may_fail: bool) -> Result<Arc<Conjunct>> {
    let columns = columns_of(&expr);
    let fields: Vec<_> = columns.iter().map(|&column| file.field(column).clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let expr = reassign_expr_columns(expr, &schema)?;
    let place = |column: usize| scanned.iter().position(|&known| known == column).unwrap_or_default();
    let places = columns.into_iter().map(place).collect();
    Ok(Arc::new(Conjunct::new(places, Arc::new(Condition { expr, schema }), may_fail)))
}

/// Returns whether a condition can fail for some values of its columns.
fn may_fail(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut fails = false;
    expr.apply(|node| {
        let never = node.is::<Column>()
            || node.is::<Literal>()
            || node.is::<NotExpr>()
            || node.is::<IsNullExpr>()
            || node.is::<IsNotNullExpr>()
            || node.is::<InListExpr>()
            || node.is::<LikeExpr>()
            || node.is::<TryCastExpr>()
            || node.downcast_ref::<BinaryExpr>().is_some_and(|binary| never_fails(*binary.op()));
        fails |= !never;
        Ok(if never { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(fails)
}

fn never_fails(operator: Operator) -> bool {
    use Operator::*;
    let compares = matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    compares || matches!(operator, And | Or | LikeMatch | NotLikeMatch | ILikeMatch | NotILikeMatch)
}
