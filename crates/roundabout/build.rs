//! Compiles the C code that the feature `ofi` needs, and finds libfabric.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "ofi")]
    fabric();
}

#[cfg(feature = "ofi")]
fn fabric() {
    const SHIM: &str = "src/libfabric/shim.c";
    println!("cargo::rerun-if-changed={SHIM}");
    let library = match pkg_config::Config::new().atleast_version("1.17").cargo_metadata(false).probe("libfabric") {
        Ok(library) => library,
        Err(error) => {
            println!(
                "cargo::error=the feature `ofi` needs libfabric (on Debian: apt-get install libfabric-dev): {error}"
            );
            return;
        }
    };
    cc::Build::new().file(SHIM).includes(&library.include_paths).warnings(true).compile("annulus_fabric");
    // After the shim, which uses it.
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in &library.libs {
        println!("cargo::rustc-link-lib={name}");
    }
}
