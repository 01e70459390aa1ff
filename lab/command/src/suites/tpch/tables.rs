//! The benchmark's tables as Parquet files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use arrow::array::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::comparison::generated::{self, TableFile, Tables};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    LineItem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

/// A file of a table: part `number` of `count`, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Part {
    table: Table,
    number: i32,
    count: i32,
}

/// The tables, largest first, so that all threads end at about the same time.
const TABLES: [Table; 8] = [
    Table::LineItem,
    Table::Orders,
    Table::PartSupp,
    Table::Part,
    Table::Customer,
    Table::Supplier,
    Table::Nation,
    Table::Region,
];

/// The approximate number of rows of a file.
const FILE_ROWS: f64 = 1_000_000.0;
/// The number of rows of a row group: small enough for 64 scans to share the larger tables at scale
/// factor 1.
const ROW_GROUP_ROWS: usize = 1 << 17;

/// Returns the folder below `root` with the tables of `scale`, and generates them if they are
/// missing. `flag` is the option that names the root, for errors. Dropping the future stops the
/// work and removes unfinished files.
pub async fn ensure(root: &Path, scale: f64, flag: &'static str) -> Result<PathBuf> {
    let files = TABLES.into_iter().flat_map(|table| {
        let count = (table.rows(scale) / FILE_ROWS).ceil().max(1.0) as i32;
        (1..=count).map(move |number| Part { table, number, count })
    });
    let file = |part: Part| TableFile {
        table: part.table.name(),
        number: part.number as usize,
        rows: Box::new(move || part.rows(scale)),
    };
    let tables = Tables {
        names: TABLES.map(Table::name).to_vec(),
        files: files.map(file).collect(),
        rows: TABLES.iter().map(|table| table.rows(scale) as u64).sum(),
        group_rows: ROW_GROUP_ROWS,
        flag,
    };
    generated::ensure(&root.join(format!("sf{scale}")), tables).await
}

/// Returns the names of the tables.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name())
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::LineItem => "lineitem",
            Self::Orders => "orders",
            Self::PartSupp => "partsupp",
            Self::Part => "part",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Nation => "nation",
            Self::Region => "region",
        }
    }

    /// Returns the number of rows at a scale factor. For lineitem it is an estimate, as an order
    /// has 1 to 7 lines.
    fn rows(self, scale: f64) -> f64 {
        match self {
            Self::LineItem => 6_001_215.0 * scale,
            Self::Orders => 1_500_000.0 * scale,
            Self::PartSupp => 800_000.0 * scale,
            Self::Part => 200_000.0 * scale,
            Self::Customer => 150_000.0 * scale,
            Self::Supplier => 10_000.0 * scale,
            Self::Nation => 25.0,
            Self::Region => 5.0,
        }
    }
}

impl Part {
    /// Generates the rows.
    fn rows(self, scale: f64) -> Box<dyn RecordBatchReader> {
        let Self { table, number, count } = self;
        match table {
            Table::LineItem => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, number, count))),
            Table::Orders => Box::new(OrderArrow::new(OrderGenerator::new(scale, number, count))),
            Table::PartSupp => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, number, count))),
            Table::Part => Box::new(PartArrow::new(PartGenerator::new(scale, number, count))),
            Table::Customer => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, number, count))),
            Table::Supplier => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, number, count))),
            Table::Nation => Box::new(NationArrow::new(NationGenerator::new(scale, number, count))),
            Table::Region => Box::new(RegionArrow::new(RegionGenerator::new(scale, number, count))),
        }
    }
}
