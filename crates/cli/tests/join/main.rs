//! `annulus join`: its output, compared to that of unmodified DataFusion, and the files it leaves
//! when something fails.

#[path = "../support/mod.rs"]
mod support;

mod asof;
#[cfg(target_os = "linux")]
mod disturbed;
mod equal;
#[cfg(target_os = "linux")]
mod faults;
mod folder;
mod nearest;
mod select;
mod single;
mod tables;
#[cfg(target_os = "linux")]
mod workers;

/// Returns the seeds; the environment can set their number.
fn seeds(name: &str, few: u64) -> std::ops::Range<u64> {
    0..std::env::var(name).map_or(few, |seeds| seeds.parse().expect("a number of seeds"))
}
