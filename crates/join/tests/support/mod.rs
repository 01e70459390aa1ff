//! Small tables, joins of them by the library, and the same joins pair by pair.
#![allow(dead_code, reason = "each test uses a part")]

pub mod hash;
pub mod model;
pub mod run;
pub mod values;
