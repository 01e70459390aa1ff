//! The session in which statements run.

use std::{env, path::Path, sync::Arc};

use annulus_dataset::InputOptions;
use annulus_distributed::ResidentTables;
use anyhow::Result;
use datafusion::{
    config::ConfigOptions,
    prelude::{SessionConfig, SessionContext},
};

use super::{copy_types::CopyTypes, external, given_types::GivenTypes, tables};
use crate::{
    cluster::Remote,
    inputs::Inputs,
    session::{self, Engine, Limits},
    stores::Stores,
    units::Setting,
};

/// The variable of an option whose default makes DataFusion 55 forget `ORDER BY` in subqueries and views.
const SORT_ELIMINATION: &str = "DATAFUSION_SQL_PARSER_ENABLE_SUBQUERY_SORT_ELIMINATION";

/// What a session is opened with.
pub struct SessionSpec<'a> {
    pub options: ConfigOptions,
    /// The columns that tables must have.
    pub types: Option<GivenTypes>,
    pub limits: Limits,
    /// How the files of tables are read.
    pub input: &'a InputOptions,
    /// The workers on which queries run, if they do not run in this process.
    pub remote: Option<&'a Remote>,
}

impl SessionSpec<'_> {
    /// Opens the session, which spills to the folder `spill`, and sets `settings`. Paths name tables in it. The
    /// inputs that come with it are those of its tables.
    ///
    /// # Errors
    /// If a setting is wrong.
    pub async fn open(self, spill: &Path, settings: &[Setting]) -> Result<(SessionContext, Arc<Inputs>)> {
        let mut options = self.options;
        if env::var_os(SORT_ELIMINATION).is_none() {
            // The rows that LIMIT takes of a sorted subquery would be any.
            options.sql_parser.enable_subquery_sort_elimination = false;
        }
        let mut config = SessionConfig::from(options).with_information_schema(true);
        if let Some(types) = self.types {
            config.set_extension(Arc::new(types));
        }
        let resident =
            self.remote.map(|remote| ResidentTables::new(remote.workers.clone(), remote.connections.clone()));
        if let Some(resident) = &resident {
            config.set_extension(Arc::new(resident.clone()));
        }
        let stores = Arc::new(Stores::default());
        let ctx = session::open(Engine::Annulus, self.limits, spill, config, Some(stores), self.remote)?;
        ctx.add_analyzer_rule(Arc::new(CopyTypes));
        resident.map_or(Ok(()), |resident| resident.install(&ctx))?;
        let inputs = Arc::new(Inputs::new(spill));
        tables::name_by_path(&ctx, Arc::clone(&inputs), self.input.clone());
        external::install(&ctx, &inputs, self.input);
        session::set_options(&ctx, settings).await?;
        Ok((ctx, inputs))
    }
}
