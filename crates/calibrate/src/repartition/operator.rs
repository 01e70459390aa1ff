//! The two operators.

use std::{any::Any, fmt, sync::Arc};

use annulus_datafusion::{AnnulusConfig, RingRepartition, RingRepartitionExec, config::Variant};
use annulus_terminal::units::Shape;
use anyhow::{Result, ensure};
use datafusion::{
    config::ConfigOptions,
    physical_expr::expressions::Column,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, Partitioning, repartition::RepartitionExec},
};

use super::input::Input;

/// A repartition operator.
#[derive(Clone, Copy, Debug)]
pub enum Operator {
    /// DataFusion's `RepartitionExec`.
    Stock,
    /// `RingRepartitionExec`, with a strategy and a path.
    Ours(Variant),
}

impl Operator {
    /// Returns a new plan that repartitions `input` by the hash of its first column.
    ///
    /// # Errors
    /// If the rule of Annulus does not replace the operator.
    pub fn plan(self, input: &Input, shape: Shape) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = input.scan(shape.inputs)?;
        let key = Column::new_with_schema(input.key(), &scan.schema())?;
        let stock = RepartitionExec::try_new(scan, Partitioning::Hash(vec![Arc::new(key)], shape.outputs))?;
        match self {
            Self::Stock => Ok(Arc::new(stock)),
            Self::Ours(variant) => replace(stock, variant),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stock => "stock's operator",
            Self::Ours(_) => "the operator of Annulus",
        })
    }
}

/// Replaces `stock` by ours, as the optimizer does.
fn replace(stock: RepartitionExec, strategy: Variant) -> Result<Arc<dyn ExecutionPlan>> {
    let options = AnnulusConfig { strategy, ..AnnulusConfig::default() };
    let plan = RingRepartition::new(options).optimize(Arc::new(stock), &ConfigOptions::default())?;
    // The plan's own downcast would find the stock operator inside.
    ensure!((plan.as_ref() as &dyn Any).is::<RingRepartitionExec>(), "the rule did not replace the stock operator");
    Ok(plan)
}
