//! Creates the certificates of a ring's members, and prints their files.

use std::{
    io::{Write, stdout},
    path::Path,
};

use annulus_roundabout::secure::{Authority, HostFiles, HostName, Role};
use anyhow::{Context, Result};
use serde_json::json;

use super::args::{AddHostArgs, AddSubmitterArgs, InitCaArgs};

pub fn init_ca(InitCaArgs { ring, folder, json }: &InitCaArgs) -> Result<()> {
    Authority::create(folder, ring.clone())?;
    let (authority, key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    print(*json, &json!({ "ring": ring.as_str(), "authority": authority, "authority_key": key }), || {
        let folder = in_folder(folder);
        format!(
            "Ring {ring}: copy {} to every member, and keep {} off all hosts.\n\
             Next: annulus worker add-host NAME{folder} for each host, and\n\
             annulus worker add-submitter NAME{folder} for each submitter.",
            authority.display(),
            key.display()
        )
    })
}

pub fn add_host(AddHostArgs { host, address, folder, json }: &AddHostArgs) -> Result<()> {
    let authority = authority_in(folder)?;
    let files = authority.add_host(host, address)?;
    print_member(*json, &authority, Role::Host, host, &files)
}

pub fn add_submitter(AddSubmitterArgs { name, folder, json }: &AddSubmitterArgs) -> Result<()> {
    let authority = authority_in(folder)?;
    let files = authority.add_submitter(name)?;
    print_member(*json, &authority, Role::Submitter, name, &files)
}

fn authority_in(folder: &Path) -> Result<Authority> {
    Authority::open(folder).with_context(|| {
        format!("no certificate authority: create one with annulus worker init-ca --ring NAME{}", in_folder(folder))
    })
}

fn print_member(as_json: bool, authority: &Authority, role: Role, name: &HostName, files: &HostFiles) -> Result<()> {
    let ring = authority.ring();
    let HostFiles { authority, certificate, key } = files;
    let object = json!({
        "ring": ring.as_str(),
        role.name(): name.as_str(),
        "authority": authority,
        "certificate": certificate,
        "key": key,
    });
    print(as_json, &object, || {
        let [authority, certificate, key] = [authority, certificate, key].map(|path| path.display());
        format!("The {role} {name} of ring {ring} needs {authority}, {certificate} and {key}.")
    })
}

fn in_folder(folder: &Path) -> String {
    if folder == Path::new(".") { String::new() } else { format!(" --folder {}", folder.display()) }
}

fn print(as_json: bool, object: &serde_json::Value, text: impl FnOnce() -> String) -> Result<()> {
    let line = if as_json { object.to_string() } else { text() };
    writeln!(stdout(), "{line}").context("cannot print")
}
