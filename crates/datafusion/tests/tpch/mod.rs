//! TPC-H tables in memory, and a few of its queries.

use std::sync::Arc;

use arrow::array::RecordBatchReader;
use datafusion::{datasource::MemTable, prelude::SessionContext};
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, NationArrow, OrderArrow};

/// Returns a table of four partitions, of small batches.
fn table<R: RecordBatchReader>(part: impl Fn(i32, i32) -> R) -> Arc<MemTable> {
    const PARTS: i32 = 4;
    let partition = |index| part(index, PARTS).collect::<Result<Vec<_>, _>>().unwrap();
    let schema = part(1, PARTS).schema();
    Arc::new(MemTable::try_new(schema, (1..=PARTS).map(partition).collect()).unwrap())
}

/// Registers the tables that [`QUERIES`] need.
pub fn register(session: &SessionContext, scale: f64) {
    let lineitem = |part, parts| LineItemArrow::new(LineItemGenerator::new(scale, part, parts)).with_batch_size(1000);
    let orders = |part, parts| OrderArrow::new(OrderGenerator::new(scale, part, parts)).with_batch_size(1000);
    let customer = |part, parts| CustomerArrow::new(CustomerGenerator::new(scale, part, parts)).with_batch_size(1000);
    let nation = |_, _| NationArrow::new(NationGenerator::new(scale, 1, 1));
    let nation = MemTable::try_new(nation(1, 1).schema(), vec![nation(1, 1).map(Result::unwrap).collect()]).unwrap();
    session.register_table("lineitem", table(lineitem)).unwrap();
    session.register_table("orders", table(orders)).unwrap();
    session.register_table("customer", table(customer)).unwrap();
    session.register_table("nation", Arc::new(nation)).unwrap();
}

/// Names and texts of joins and aggregates whose answers have only one order.
pub const QUERIES: [(&str, &str); 6] = [
    (
        "pricing summary",
        "select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)), avg(l_discount), \
         count(*) from lineitem where l_shipdate <= date '1998-09-02' group by l_returnflag, l_linestatus \
         order by l_returnflag, l_linestatus",
    ),
    (
        "shipping priority",
        "select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority \
         from customer, orders, lineitem where c_mktsegment = 'BUILDING' and c_custkey = o_custkey \
         and l_orderkey = o_orderkey and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15' \
         group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10",
    ),
    (
        "order priority",
        "select o_orderpriority, count(*) from orders where exists (select * from lineitem \
         where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) \
         group by o_orderpriority order by o_orderpriority",
    ),
    (
        "returned items",
        "select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, n_name from customer, orders, \
         lineitem, nation where c_custkey = o_custkey and l_orderkey = o_orderkey and l_returnflag = 'R' \
         and c_nationkey = n_nationkey group by c_custkey, c_name, n_name order by revenue desc, c_custkey limit 20",
    ),
    (
        "customer distribution",
        "select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count from customer \
         left outer join orders on c_custkey = o_custkey and o_comment not like '%special%requests%' \
         group by c_custkey) group by c_count order by custdist desc, c_count desc",
    ),
    (
        "distinct counts",
        "select l_shipmode, count(distinct l_orderkey), count(distinct l_comment) from lineitem group by l_shipmode \
         order by l_shipmode",
    ),
];
