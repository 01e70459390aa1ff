//! Passes the compiler's version on, for results that say what measured them.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let printed = Command::new(compiler).arg("--version").output().map(|output| output.stdout);
    let version = printed.ok().and_then(|text| String::from_utf8(text).ok());
    println!("cargo::rustc-env=ANNULUS_RUSTC={}", version.as_deref().map_or("unknown rustc", str::trim));
}
