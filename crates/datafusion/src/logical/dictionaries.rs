//! Casts of dictionaries to text views: `arrow-cast` 59.3 looks at the nulls of the keys alone there, and
//! a null among the values becomes an empty text (`view_from_dict_values` in `cast/dictionary.rs`).

use std::mem;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{Expr, ExprSchemable, LogicalPlan, cast, expr_rewriter::NamePreserver, utils::merge_schema},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

/// The rule that casts dictionaries to the type of their values first.
#[derive(Debug)]
pub(super) struct PlainDictionaries;

impl OptimizerRule for PlainDictionaries {
    fn name(&self) -> &str {
        "plain_dictionaries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let (schema, names) = (merge_schema(&plan.inputs()), NamePreserver::new(&plan));
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|part| in_two_steps(part, &schema))?;
            Ok(if rewritten.transformed { rewritten.update_data(|expr| name.restore(expr)) } else { rewritten })
        })
    }
}

fn in_two_steps(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, to) = match &mut part {
        Expr::Cast(cast) => (&mut cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&mut cast.expr, cast.field.data_type()),
        _ => return Ok(Transformed::no(part)),
    };
    let is_view = matches!(to, DataType::Utf8View | DataType::BinaryView);
    match inner.get_type(schema) {
        Ok(DataType::Dictionary(_, values)) if is_view && *values != *to => {
            **inner = cast(mem::take(&mut **inner), *values);
            Ok(Transformed::yes(part))
        }
        _ => Ok(Transformed::no(part)),
    }
}
