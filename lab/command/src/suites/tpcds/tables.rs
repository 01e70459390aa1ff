//! The benchmark's tables as Parquet files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use arrow::array::RecordBatchReader;
use tpcdsgen::config::{Session, SessionBuilder, Table};
use tpcdsgen_arrow as generators;

use crate::comparison::generated::{self, TableFile, Tables};

/// The tables that the queries read, largest first, so that all threads end at about the same time.
const TABLES: [Table; 24] = [
    Table::Inventory,
    Table::StoreSales,
    Table::CustomerDemographics,
    Table::CatalogSales,
    Table::WebSales,
    Table::StoreReturns,
    Table::CatalogReturns,
    Table::WebReturns,
    Table::Customer,
    Table::TimeDim,
    Table::DateDim,
    Table::CustomerAddress,
    Table::Item,
    Table::CatalogPage,
    Table::HouseholdDemographics,
    Table::Promotion,
    Table::Reason,
    Table::WebPage,
    Table::WebSite,
    Table::IncomeBand,
    Table::ShipMode,
    Table::Store,
    Table::CallCenter,
    Table::Warehouse,
];

/// The approximate number of rows of a file.
const FILE_ROWS: f64 = 1_000_000.0;
/// The number of rows of a row group: small enough for several scans to share the larger tables at
/// scale factor 1.
const ROW_GROUP_ROWS: usize = 1 << 16;

/// Returns the folder below `root` with the tables of `scale`, and generates them if they are
/// missing. `flag` is the option that names the root, for errors. Dropping the future stops the
/// work and removes unfinished files.
///
/// # Errors
/// If the generator refuses the scale, or a file cannot be written.
pub async fn ensure(root: &Path, scale: f64, flag: &'static str) -> Result<PathBuf> {
    let session = SessionBuilder::new().with_scale_factor(scale).build();
    let session = session.with_context(|| format!("invalid scale factor {scale}"))?;
    let tables = Tables {
        names: TABLES.iter().map(Table::get_name).collect(),
        files: TABLES.into_iter().flat_map(|table| files(&session, table)).collect(),
        rows: TABLES.iter().map(|table| rows(&session, *table) as u64).sum(),
        group_rows: ROW_GROUP_ROWS,
        flag,
    };
    generated::ensure(&root.join(format!("sf{scale}")), tables).await
}

/// Returns the names of the tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(Table::get_name)
}

/// Returns the approximate number of rows. The generator counts orders of the tables of sales and
/// returns; an order has several rows, and one in ten is returned.
fn rows(session: &Session, table: Table) -> f64 {
    let rows_of_one = match table {
        Table::StoreSales | Table::WebSales => 12.0,
        Table::CatalogSales => 9.0,
        Table::StoreReturns | Table::WebReturns => 1.2,
        Table::CatalogReturns => 0.9,
        _ => 1.0,
    };
    session.get_scaling().get_row_count(table) as f64 * rows_of_one
}

/// Returns the files of a table, with about as many of the generator's rows each.
fn files(session: &Session, table: Table) -> Vec<TableFile> {
    let count = (rows(session, table) / FILE_ROWS).ceil().max(1.0) as u64;
    let all = session.get_scaling().get_row_count(table);
    let file = |number: u64| {
        let (first, last) = (all * number / count + 1, all * (number + 1) / count);
        let session = session.clone();
        let rows: Box<dyn Fn() -> Box<dyn RecordBatchReader> + Send + Sync> =
            Box::new(move || generate(session.clone(), table, first, last));
        TableFile { table: table.get_name(), number: number as usize + 1, rows }
    };
    (0..count).map(file).collect()
}

/// Generates what the rows `first` to `last` of the generator, counted from 1, make of a table.
fn generate(session: Session, table: Table, first: u64, last: u64) -> Box<dyn RecordBatchReader> {
    macro_rules! reader {
        ($($table:ident: $reader:ident,)*) => {
            match table {
                $(Table::$table => Box::new(generators::$reader::new(session).with_source_row_range(first, last)),)*
            }
        };
    }
    reader! {
        CallCenter: CallCenterArrow,
        CatalogPage: CatalogPageArrow,
        CatalogReturns: CatalogReturnsArrow,
        CatalogSales: CatalogSalesArrow,
        Customer: CustomerArrow,
        CustomerAddress: CustomerAddressArrow,
        CustomerDemographics: CustomerDemographicsArrow,
        DateDim: DateDimArrow,
        DbgenVersion: DbgenVersionArrow,
        HouseholdDemographics: HouseholdDemographicsArrow,
        IncomeBand: IncomeBandArrow,
        Inventory: InventoryArrow,
        Item: ItemArrow,
        Promotion: PromotionArrow,
        Reason: ReasonArrow,
        ShipMode: ShipModeArrow,
        Store: StoreArrow,
        StoreReturns: StoreReturnsArrow,
        StoreSales: StoreSalesArrow,
        TimeDim: TimeDimArrow,
        Warehouse: WarehouseArrow,
        WebPage: WebPageArrow,
        WebReturns: WebReturnsArrow,
        WebSales: WebSalesArrow,
        WebSite: WebSiteArrow,
    }
}
