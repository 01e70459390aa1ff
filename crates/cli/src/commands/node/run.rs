//! Creates the files of a ring's members, or runs one of its hosts.

use std::{
    io::{Write, stdout},
    path::Path,
    sync::Arc,
    thread,
};

use annulus_cluster::{Access, Member, Node, RingFile};
use annulus_roundabout::secure::{Authority, HostFiles, HostName, Role};
use annulus_terminal::heap;
use anyhow::{Context, Result, bail};
use serde_json::json;
use tracing::{info, warn};

use super::args::{AddHostArgs, AddSubmitterArgs, InitCaArgs, NodeArgs, NodeCommand};
use crate::{interrupt::Signals, logging, outcome::Outcome, runtime};

/// Creates certificates and prints their files, or runs a host until a signal arrives.
pub fn run(args: NodeArgs) -> Result<Outcome> {
    match (&args.command, &args.ring) {
        (Some(NodeCommand::InitCa(args)), _) => init_ca(args).map(|()| Outcome::Done),
        (Some(NodeCommand::AddHost(args)), _) => add_host(args).map(|()| Outcome::Done),
        (Some(NodeCommand::AddSubmitter(args)), _) => add_submitter(args).map(|()| Outcome::Done),
        (None, Some(ring)) => runtime::run(serve(&args, ring)),
        (None, None) => {
            bail!("missing argument: give --ring FILE to run a host, or init-ca, add-host or add-submitter")
        }
    }
}

/// Runs a host until a signal arrives. The signal ends a running join, and its partial output is
/// removed.
async fn serve(args: &NodeArgs, ring: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let file = RingFile::load(ring)?;
    let identity = file.identity(Role::Host, args.name.as_ref())?;
    let host = file.host(&identity.member().host)?.clone();
    let access = Access::new(&args.allow_read, &args.allow_write, &file.certificates)?;
    let is_clear = file.trusted_network;
    let member = Member { file, identity, access, step_timeout: args.step_timeout };
    let node = Node::listen(member, args.timeout)?.with_at_idle(heap::release);
    let node = Arc::new(node);
    logging::to_stderr()?;
    if is_clear {
        warn!("rows are sent unencrypted: trusted_network is true in {}", ring.display());
    }
    info!("host {} accepts joins at {}", host.name, host.control);
    let running = Arc::clone(&node);
    thread::Builder::new().name("node".to_owned()).spawn(move || running.run())?;
    let signal = signals.next().await;
    node.stop();
    info!("stopped by signal {signal}");
    Ok(Outcome::Interrupted(signal))
}

fn init_ca(InitCaArgs { ring, folder, json }: &InitCaArgs) -> Result<()> {
    Authority::create(folder, ring.clone())?;
    let (authority, key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    print(*json, &json!({ "ring": ring.as_str(), "authority": authority, "authority_key": key }), || {
        let folder = in_folder(folder);
        format!(
            "Ring {ring}: copy {} to every member, and keep {} off all hosts.\n\
             Next: annulus node add-host NAME{folder} for each host, and\n\
             annulus node add-submitter NAME{folder} for each submitter.",
            authority.display(),
            key.display()
        )
    })
}

fn add_host(AddHostArgs { host, address, folder, json }: &AddHostArgs) -> Result<()> {
    let authority = authority_in(folder)?;
    let files = authority.add_host(host, address)?;
    print_member(*json, &authority, Role::Host, host, &files)
}

fn add_submitter(AddSubmitterArgs { name, folder, json }: &AddSubmitterArgs) -> Result<()> {
    let authority = authority_in(folder)?;
    let files = authority.add_submitter(name)?;
    print_member(*json, &authority, Role::Submitter, name, &files)
}

fn authority_in(folder: &Path) -> Result<Authority> {
    Authority::open(folder).with_context(|| {
        format!("no certificate authority: create one with annulus node init-ca --ring NAME{}", in_folder(folder))
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
