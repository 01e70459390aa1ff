//! The analyzer rule.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        Expr, ExprSchemable, Join, LogicalPlan, Projection, Union, expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};

use super::{
    operands::{Operand, prepare, unify},
    rewrite::compare,
};

/// Gives each pair of types one comparison, before DataFusion coerces types.
///
/// Decimals are compared with floats as floats, with integers and other decimals exactly, dates with
/// timestamps in the timestamp's unit, and sums of integers as whole numbers. Times without a zone
/// are compared with zoned ones only if the session has a zone. Texts are compared with numbers and
/// times only if they are constants.
/// [`SessionStateBuilderExt`](crate::SessionStateBuilderExt) installs the rule in a session.
#[derive(Debug, Default)]
pub struct Comparisons {}

impl Comparisons {
    /// The rule's name in `EXPLAIN VERBOSE`.
    pub const NAME: &'static str = "comparisons";

    /// Inserts this rule into a list, before DataFusion's coercion of types. A list that already has
    /// the rule stays unchanged.
    pub fn install(rules: &mut Vec<Arc<dyn AnalyzerRule + Send + Sync>>) {
        if rules.iter().any(|rule| rule.name() == Self::NAME) {
            return;
        }
        let coercion = rules.iter().position(|rule| rule.name() == "type_coercion");
        rules.insert(coercion.unwrap_or(rules.len()), Arc::new(Self {}));
    }
}

impl AnalyzerRule for Comparisons {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|node| rewrite(node, config))?.data)
    }
}

fn rewrite(plan: LogicalPlan, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let of_table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&of_table);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(compare(expr, &schema, config)?)))
    })?;
    let rewritten = match rewritten.data {
        LogicalPlan::Join(join) => LogicalPlan::Join(keys(join, config)?),
        LogicalPlan::Union(union) => LogicalPlan::Union(columns(union, config)?),
        other => other,
    };
    Ok(Transformed::yes(rewritten.recompute_schema()?))
}

/// Casts the keys of a join.
fn keys(mut join: Join, config: &ConfigOptions) -> Result<Join> {
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        let (Ok(of_left), Ok(of_right)) = types else { continue };
        let mut both = [Operand::new(left.clone(), of_left, config), Operand::new(right.clone(), of_right, config)];
        prepare(&mut both, config)?;
        let [of_left, of_right] = both;
        (*left, *right) = (of_left.expr, of_right.expr);
    }
    Ok(join)
}

/// Casts the columns of a union where DataFusion would change their values.
fn columns(union: Union, config: &ConfigOptions) -> Result<Union> {
    let width = union.inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let mut exprs: Vec<Vec<Expr>> = vec![Vec::new(); union.inputs.len()];
    let mut is_changed = false;
    for column in 0..width {
        let mut operands: Vec<Operand> = union.inputs.iter().map(|input| column_of(input, column, config)).collect();
        let types = |operands: &[Operand]| operands.iter().map(Operand::data_type).cloned().collect::<Vec<DataType>>();
        let before = types(&operands);
        unify(&mut operands, config)?;
        is_changed |= before != types(&operands);
        exprs.iter_mut().zip(operands).for_each(|(exprs, operand)| exprs.push(operand.expr));
    }
    let same_width = union.inputs.iter().all(|input| input.schema().fields().len() == width);
    if !is_changed || !same_width {
        return Ok(union);
    }
    let inputs = union.inputs.iter().zip(exprs).map(|(input, exprs)| {
        let named = exprs.into_iter().zip(input.schema().fields()).map(|(expr, field)| match expr {
            column @ Expr::Column(_) => column,
            cast => cast.alias(field.name()),
        });
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::clone(input))?)))
    });
    Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)
}

/// Returns a column of an input of a union.
fn column_of(input: &Arc<LogicalPlan>, column: usize, config: &ConfigOptions) -> Operand {
    let (qualifier, field) = input.schema().qualified_field(column);
    let operand = Operand::new(Expr::from((qualifier, field)), field.data_type().clone(), config);
    match input.as_ref() {
        LogicalPlan::Projection(projection) => operand.with_constant_of(&projection.expr[column], config),
        _ => operand,
    }
}
