//! Objects as a table, which DataFusion reads where they are.

use std::{collections::HashMap, future::ready, sync::Arc};

use datafusion::{
    catalog::TableProvider,
    common::{config_datafusion_err, exec_datafusion_err},
    datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
    error::Result,
    execution::SessionState,
};
use futures::TryStreamExt;

use super::fetch::has_rows;

/// Returns the table of the objects that `url` names: one, or all below a prefix that ends in `/`, except
/// manifests of datasets. The name of the first one tells the format.
///
/// # Errors
/// If there is none, the store refuses, or the objects cannot be read.
pub async fn table(state: &SessionState, url: &str) -> Result<Arc<dyn TableProvider>> {
    let url = ListingTableUrl::parse(url)?;
    let store = state.runtime_env().object_store(&url)?;
    let objects = url.list_all_files(state, store.as_ref(), "").await?;
    let mut data = std::pin::pin!(objects.try_filter(|object| ready(has_rows(&url, object))));
    let Some(first) = data.try_next().await? else {
        return Err(exec_datafusion_err!("there is no object '{url}', and none below it: a folder's URL ends in /"));
    };
    let (extension, compression) =
        ListingTableConfig::infer_file_extension_and_compression_type(first.location.as_ref())?;
    let options = compression.iter().map(|compression| ("format.compression".to_owned(), compression.clone()));
    let format = state
        .get_file_format_factory(&extension)
        .ok_or_else(|| config_datafusion_err!("'{}' has a format that is not known: '{extension}'", first.location))?;
    let format = format.create(state, &options.collect::<HashMap<_, _>>())?;
    let extension = compression.map_or_else(|| extension.clone(), |compression| format!("{extension}.{compression}"));
    let options = ListingOptions::new(format).with_file_extension(extension);
    let config = ListingTableConfig::new(url.clone()).with_listing_options(options);
    let config = config.infer_partitions_from_path(state).await?.infer_schema(state).await?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}
