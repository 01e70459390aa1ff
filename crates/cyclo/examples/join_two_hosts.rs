//! A join around two hosts in one process, connected by TCP. Host 0 holds the customers and host 1
//! the orders; both print the pairs that they find: `cargo run -p annulus-cyclo --example
//! join_two_hosts`

use std::{error::Error, net::TcpListener, sync::Arc, thread};

use annulus_cyclo::{Condition, JoinSpec, Share};
use annulus_join::{JoinType, OutputSpec, Partitions, Side, Sides};
use annulus_roundabout::{Address, Host, HostBuilder, RingConfig, RingPosition};
use arrow::{
    array::{Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
    util::pretty::pretty_format_batches,
};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let [first, second] = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let (to_first, to_second) = (first.local_addr()?, second.local_addr()?);
    let customers = rows("name", &[(1, "Ada"), (2, "Grace"), (3, "Edsger")])?;
    let orders = rows("item", &[(2, "compiler"), (1, "engine"), (2, "nanosecond")])?;
    thread::scope(|scope| {
        let other = scope.spawn(|| join(1, Address::Tcp { listener: second, successor: to_first }, None, Some(orders)));
        join(0, Address::Tcp { listener: first, successor: to_second }, Some(customers), None)?;
        other.join().expect("host 1 panicked")
    })
}

/// Runs host `me` with its rows of both tables: customers are the build side, orders the probe
/// side.
fn join(
    me: u16,
    address: Address,
    customers: Option<RecordBatch>,
    orders: Option<RecordBatch>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (position, config) = (RingPosition::new(me, 2).expect("host 0 or 1 of 2"), RingConfig::default());
    let mut host = Host::join_ring(HostBuilder::new(position, 1, address).with_config(&config))?;
    let schemas = Sides { left: schema("name"), right: schema("item") };
    let output =
        OutputSpec::new(JoinType::Inner, Side::Left, schemas).with_columns(Sides { left: vec![1], right: vec![1] });
    let partitions = Partitions::for_rows(3);
    let condition = Condition::Hash { build: vec![0], probe: vec![0], nulls_equal: false, partitions };
    let spec = JoinSpec::new(output, condition, config.fragment_bytes as usize);
    let share = Share::prepare(&spec, Vec::from_iter(customers), Vec::from_iter(orders))?;
    share.revolve(&mut host, &|_thread, batch| {
        println!("host {me} found\n{}", pretty_format_batches(&[batch])?);
        Ok(())
    })?;
    Ok(host.finish()?)
}

fn schema(text: &str) -> SchemaRef {
    let customer = Field::new("customer", DataType::Int64, false);
    Arc::new(Schema::new(vec![customer, Field::new(text, DataType::Utf8, false)]))
}

fn rows(text: &str, rows: &[(i64, &str)]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let customers = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let texts = StringArray::from_iter_values(rows.iter().map(|row| row.1));
    RecordBatch::try_new(schema(text), vec![Arc::new(customers), Arc::new(texts)])
}
