//! The columns that `--types` names. Some table must have each of them.

use std::collections::HashSet;

use annulus_dataset::{ColumnTypes, type_of_column};
use anyhow::{Result, bail};
use arrow::datatypes::Schema;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

/// The columns with a given type that no table has had until now. It is an extension of the
/// session, so that tables that queries name by path count, too.
#[derive(Debug)]
pub struct GivenTypes(Mutex<HashSet<String>>);

impl GivenTypes {
    /// Starts with all columns that have a given type.
    pub fn new(types: &ColumnTypes) -> Self {
        Self(Mutex::new(types.columns.iter().map(|(column, _)| column.clone()).collect()))
    }

    /// Removes the columns of a table in the session of `config`.
    pub fn found(config: &SessionConfig, schema: &Schema) {
        if let Some(given) = config.get_extension::<Self>() {
            given.0.lock().retain(|name| type_of_column(schema, name).is_none());
        }
    }

    /// Checks that tables in the session of `config` have all columns.
    ///
    /// # Errors
    /// If a column is missing.
    pub fn check(config: &SessionConfig) -> Result<()> {
        let Some(given) = config.get_extension::<Self>() else { return Ok(()) };
        let missing = given.0.lock();
        if let Some(name) = missing.iter().min() {
            bail!("--types names the column '{name}', which no table has: check the name");
        }
        Ok(())
    }
}
