//! Tables that one statement alone knows, before those of the session.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    error::Result,
    execution::SessionState,
    prelude::SessionContext,
};

/// The tables of a statement by name.
pub type BoundTables = Arc<HashMap<String, Arc<dyn TableProvider>>>;

/// Returns the state of `ctx`, in which `tables` have their names.
pub fn state_with(ctx: &SessionContext, tables: BoundTables) -> SessionState {
    let mut state = ctx.state();
    if tables.is_empty() {
        return state;
    }
    let defaults = &state.config_options().catalog;
    let place = (defaults.default_catalog.clone(), defaults.default_schema.clone());
    let inner = Arc::clone(state.catalog_list());
    state.register_catalog_list(Arc::new(Catalogs { inner, place, tables }));
    state
}

/// The catalogs of a session; the tables are in the default schema of the default one.
#[derive(Debug)]
struct Catalogs {
    inner: Arc<dyn CatalogProviderList>,
    place: (String, String),
    tables: BoundTables,
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
    tables: BoundTables,
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
    tables: BoundTables,
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.tables.get(name) {
            Some(table) => Ok(Some(Arc::clone(table))),
            None => self.inner.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name) || self.inner.table_exist(name)
    }
}
