//! `annulus verify`: checks the files of a dataset against its manifest.

mod args;
mod run;

pub use args::VerifyArgs;
pub use run::run;
