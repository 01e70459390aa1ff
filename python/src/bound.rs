//! Tables that one statement alone knows, before those of the session.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    common::TableReference,
    error::Result,
    execution::SessionState,
    prelude::SessionContext,
};

/// The tables of a statement by name.
#[derive(Clone, Debug, Default)]
pub struct BoundTables {
    /// Those that were given to it, before those of the session.
    pub given: HashMap<String, Arc<dyn TableProvider>>,
    /// The variables of the caller, after those of the session.
    pub found: HashMap<String, Arc<dyn TableProvider>>,
}

impl BoundTables {
    /// Returns whether a name is one of these tables in `ctx`.
    pub fn have(&self, ctx: &SessionContext, name: &str) -> bool {
        self.given.contains_key(name)
            || (self.found.contains_key(name) && !ctx.table_exist(TableReference::bare(name)).unwrap_or(false))
    }
}

/// Returns the state of `ctx`, in which `tables` have their names.
pub fn state_with(ctx: &SessionContext, tables: &Arc<BoundTables>) -> SessionState {
    let mut state = ctx.state();
    if tables.given.is_empty() && tables.found.is_empty() {
        return state;
    }
    let defaults = &state.config_options().catalog;
    let place = (defaults.default_catalog.clone(), defaults.default_schema.clone());
    let inner = Arc::clone(state.catalog_list());
    state.register_catalog_list(Arc::new(Catalogs { inner, place, tables: Arc::clone(tables) }));
    state
}

/// The catalogs of a session; the tables are in the default schema of the default one.
#[derive(Debug)]
struct Catalogs {
    inner: Arc<dyn CatalogProviderList>,
    place: (String, String),
    tables: Arc<BoundTables>,
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(&self, name: String, catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        self.inner.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.inner.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let inner = self.inner.catalog(name)?;
        if name != self.place.0 {
            return Some(inner);
        }
        Some(Arc::new(Catalog { inner, schema: self.place.1.clone(), tables: Arc::clone(&self.tables) }))
    }
}

#[derive(Debug)]
struct Catalog {
    inner: Arc<dyn CatalogProvider>,
    schema: String,
    tables: Arc<BoundTables>,
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let inner = self.inner.schema(name)?;
        if name != self.schema {
            return Some(inner);
        }
        Some(Arc::new(Schema { inner, tables: Arc::clone(&self.tables) }))
    }
}

#[derive(Debug)]
struct Schema {
    inner: Arc<dyn SchemaProvider>,
    tables: Arc<BoundTables>,
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.tables.given.get(name) {
            return Ok(Some(Arc::clone(table)));
        }
        match self.tables.found.get(name) {
            // What the session does not have may be a path.
            Some(table) if !self.inner.table_exist(name) => Ok(Some(Arc::clone(table))),
            _ => self.inner.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.given.contains_key(name) || self.tables.found.contains_key(name) || self.inner.table_exist(name)
    }
}
