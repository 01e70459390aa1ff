//! Floats in Parquet files: NaN and both zeros are where they are in memory, whatever the files'
//! statistics, page indexes and Bloom filters say.

mod answers;
mod claims;
mod folders;
mod support;
