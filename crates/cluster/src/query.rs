//! A join as a query of DataFusion, for a session of the caller's.

use std::{path::Path, sync::Arc};

use annulus_datafusion::DatasetTable;
use annulus_dataset::{Dataset, MixedColumn, OutputFormat, Settings};
use annulus_join::{Side, Sides};
use datafusion::{logical_expr::LogicalPlan, prelude::SessionConfig};

use crate::{
    coordinator::{check_types, in_small_units, nanoseconds_since_1970, open},
    error::ClusterError,
    job::{Algorithm, Inputs, Query},
    plan::{self, Bound, Condition, logical},
};

/// A join whose inputs are open.
pub struct JoinQuery {
    query: Query,
    condition: Condition,
    bound: Bound,
    sides: Sides<Dataset>,
}

impl JoinQuery {
    /// Opens the inputs of a query, whose result is to be written to the folder `output`. Reads their
    /// metadata, and samples of text files.
    ///
    /// # Errors
    /// If an input cannot be read or lies in the output folder, or the query is invalid.
    pub fn open(query: &Query, output: &Path, format: OutputFormat) -> Result<Self, ClusterError> {
        let mut query = in_small_units(query);
        for input in [&mut query.left, &mut query.right] {
            input.options.page_index = true;
        }
        let sides = Sides { left: open(&query.left)?, right: open(&query.right)? };
        sides.iter().try_for_each(|side| side.refuse_inputs_in(output))?;
        query.refuse_nested(output, format)?;
        check_types(&query, [&sides.left, &sides.right])?;
        let condition = Condition::new(&query, &sides.left.schema, &sides.right.schema, nanoseconds_since_1970())?;
        // DataFusion chooses both.
        let bound = plan::bind(&condition, &query, Side::Right, Algorithm::Loops)?;
        Ok(Self { query, condition, bound, sides })
    }

    /// Returns the columns of the left and the right input that are text because of a few values.
    pub fn mixed(&self) -> Sides<&[MixedColumn]> {
        self.sides.as_ref().map(|side| &side.mixed[..])
    }

    /// Returns for each column of the result whether a dictionary is expected to pay for it in a file.
    pub fn dictionaries(&self) -> Vec<bool> {
        self.bound.dictionaries(self.sides.as_ref().map(|side| &side.hints))
    }

    /// Returns the settings for the manifest of the result.
    pub fn settings(&self) -> Settings {
        self.query.settings()
    }

    /// Returns the query as a plan for sessions of `config`.
    ///
    /// # Errors
    /// If DataFusion refuses it.
    pub fn into_plan(self, config: &SessionConfig, inputs: Inputs) -> Result<LogicalPlan, ClusterError> {
        let Self { query, condition, bound, sides } = self;
        let tables = sides.map(|side| {
            let table = DatasetTable::new(side, config);
            let table = if inputs == Inputs::Each { table.of_each_process() } else { table };
            Arc::new(table) as _
        });
        logical(&condition, &query, &bound, Side::Left, tables)
    }
}
