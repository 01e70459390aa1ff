//! `annulus_data._internal`: what `annulus_data` runs on. Its classes are thin: they hold a session, the
//! plan of a query, batches of rows, or work that is under way. What users call is written in Python.
//!
//! ```text
//! tables of the caller -> tables.rs: without a copy, or as a stream -> bound.rs: names in one statement
//! SQL -> session.rs -> query.rs: a plan -> task.rs: runs beside Python, ends at an interrupt
//!                   -> rows.rs: batches -> capsule.rs: to other libraries, without a copy
//!                                       -> values.rs: to objects of Python
//! ```

mod bound;
mod calls;
mod capsule;
mod closing;
mod errors;
mod foreign;
mod functions;
mod handle;
mod notes;
mod owner;
mod parameters;
mod profile;
mod program;
mod query;
mod rows;
mod session;
mod tables;
mod task;
mod values;
mod work;

use annulus_alloc::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[pyo3::pymodule]
mod _internal {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::{
        foreign::Foreign,
        notes::take_notes,
        program::{run_command, set_program},
        query::Query,
        rows::{Batch, BatchStream, Rows, Schema},
        session::Session,
        tables::{Reading, Stream, Table},
        work::Work,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::notes::keep();
        module.add("FOREIGN_ID", super::foreign::ID)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
