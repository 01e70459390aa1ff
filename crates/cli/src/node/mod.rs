//! `annulus node`: who belongs to a ring of hosts.

mod args;

use std::{
    io::{Write, stdout},
    path::Path,
};

use annulus_roundabout::secure::Authority;
use anyhow::{Context, Result};
pub use args::{AddHostArgs, InitCaArgs, NodeCommand};
use serde_json::json;

/// Makes the files that `command` asks for, and prints which.
pub fn run(command: &NodeCommand) -> Result<()> {
    match command {
        NodeCommand::InitCa(args) => init_ca(args),
        NodeCommand::AddHost(args) => add_host(args),
    }
}

fn init_ca(InitCaArgs { ring, folder, json }: &InitCaArgs) -> Result<()> {
    Authority::create(folder, ring.clone())?;
    let (authority, key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    print(*json, &json!({ "ring": ring.as_str(), "authority": authority, "authority_key": key }), || {
        let folder = in_folder(folder);
        format!(
            "Ring {ring}: {} for every host, and {} to be kept.\nNext: annulus node add-host NAME{folder}, for each host.",
            authority.display(),
            key.display()
        )
    })
}

fn add_host(AddHostArgs { host, address, folder, json }: &AddHostArgs) -> Result<()> {
    let authority = Authority::open(folder).with_context(|| {
        format!("no authority; make one with annulus node init-ca --ring NAME{}", in_folder(folder))
    })?;
    let files = authority.add_host(host, address)?;
    let ring = authority.ring();
    let paths = (&files.authority, &files.certificate, &files.key);
    let object = json!({ "ring": ring.as_str(), "host": host.as_str(), "authority": paths.0, "certificate": paths.1, "key": paths.2 });
    print(*json, &object, || {
        let [authority, certificate, key] = [paths.0, paths.1, paths.2].map(|path| path.display());
        format!("Host {host} of ring {ring} needs {authority}, {certificate} and {key}.")
    })
}

fn in_folder(folder: &Path) -> String {
    if folder == Path::new(".") { String::new() } else { format!(" --folder {}", folder.display()) }
}

fn print(as_json: bool, object: &serde_json::Value, text: impl FnOnce() -> String) -> Result<()> {
    let line = if as_json { object.to_string() } else { text() };
    writeln!(stdout(), "{line}").context("cannot print")
}
