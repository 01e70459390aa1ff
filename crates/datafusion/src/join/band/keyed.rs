//! Hash joins as joins on a band.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::{
    common::{
        JoinSide, NullEquality,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, conjunction,
        expressions::{BinaryExpr, Column},
    },
    physical_plan::{
        ExecutionPlan,
        joins::{
            HashJoinExec, NestedLoopJoinExec,
            utils::{ColumnIndex, JoinFilter},
        },
    },
};

/// Returns a hash join as a join by nested loops, whose filter has the equal keys, too. `None` if
/// it has a limit, or keys whose nulls decide about other rows.
///
/// # Errors
/// If the hash join is invalid.
pub(crate) fn as_nested_loops(stock: &HashJoinExec) -> Result<Option<NestedLoopJoinExec>> {
    if stock.null_aware || stock.fetch().is_some() {
        return Ok(None);
    }
    let filter = stock.filter();
    let fields = filter.map(|filter| filter.schema().fields().iter().map(|field| field.as_ref().clone()).collect());
    let mut columns = FilterColumns {
        places: filter.map(|filter| filter.column_indices().to_vec()).unwrap_or_default(),
        fields: fields.unwrap_or_default(),
    };
    let equal = match stock.null_equality() {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let mut predicates: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for (left, right) in stock.on() {
        let left = columns.read(left, stock.left(), JoinSide::Left)?;
        let right = columns.read(right, stock.right(), JoinSide::Right)?;
        predicates.push(Arc::new(BinaryExpr::new(left, equal, right)));
    }
    predicates.extend(filter.map(|filter| Arc::clone(filter.expression())));
    let schema = Arc::new(Schema::new(columns.fields));
    let filter = JoinFilter::new(conjunction(predicates), columns.places, schema);
    let projection = stock.projection.as_ref().map(|projection| projection.to_vec());
    let (left, right) = (Arc::clone(stock.left()), Arc::clone(stock.right()));
    NestedLoopJoinExec::try_new(left, right, Some(filter), stock.join_type(), projection).map(Some)
}

/// The columns that a filter reads.
struct FilterColumns {
    places: Vec<ColumnIndex>,
    fields: Vec<Field>,
}

impl FilterColumns {
    /// Returns an expression over one side as one over the columns of the filter, to which its
    /// columns are added.
    fn read(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        input: &Arc<dyn ExecutionPlan>,
        side: JoinSide,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = input.schema();
        let read = Arc::clone(expr).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = ColumnIndex { index: column.index(), side };
            let known = self.places.iter().position(|known| *known == place);
            let number = known.unwrap_or_else(|| {
                self.fields.push(schema.field(column.index()).clone());
                self.places.push(place);
                self.places.len() - 1
            });
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), number)) as Arc<dyn PhysicalExpr>))
        })?;
        Ok(read.data)
    }
}
