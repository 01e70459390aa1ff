//! Makes the files of a ring's members, or is one of its hosts.

use std::{
    io::{Write, stderr, stdout},
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
use crate::{interrupt::Signals, outcome::Outcome, runtime};

/// Makes the files that are asked for, and prints which; or is a host until a signal comes.
pub fn run(args: NodeArgs) -> Result<Outcome> {
    match (&args.command, &args.ring) {
        (Some(NodeCommand::InitCa(args)), _) => init_ca(args).map(|()| Outcome::Done),
        (Some(NodeCommand::AddHost(args)), _) => add_host(args).map(|()| Outcome::Done),
        (Some(NodeCommand::AddSubmitter(args)), _) => add_submitter(args).map(|()| Outcome::Done),
        (None, Some(ring)) => runtime::run(serve(&args, ring)),
        (None, None) => bail!("say what to do: --ring FILE to be a host, or init-ca, add-host or add-submitter"),
    }
}

/// Until a signal comes, which ends a join that runs: nothing of this host's is left.
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
    log_to_stderr()?;
    if is_clear {
        warn!("rows are sent unencrypted, since {} says trusted_network = true", ring.display());
    }
    info!("host {} takes orders at {}", host.name, host.control);
    let running = Arc::clone(&node);
    thread::Builder::new().name("node".to_owned()).spawn(move || running.run())?;
    let signal = signals.next().await;
    node.stop();
    info!("stopped by signal {signal}");
    Ok(Outcome::Interrupted(signal))
}

/// A line for each event, with its time in UTC and its level.
fn log_to_stderr() -> Result<()> {
    let lines = tracing_subscriber::fmt().with_writer(stderr).with_target(false).with_ansi(false);
    lines.try_init().map_err(anyhow::Error::from_boxed).context("cannot log")
}

fn init_ca(InitCaArgs { ring, folder, json }: &InitCaArgs) -> Result<()> {
    Authority::create(folder, ring.clone())?;
    let (authority, key) = (folder.join("ca.pem"), folder.join("ca-key.pem"));
    print(*json, &json!({ "ring": ring.as_str(), "authority": authority, "authority_key": key }), || {
        let folder = in_folder(folder);
        format!(
            "Ring {ring}: {} for every member, and {} to be kept off all hosts.\nNext: annulus node add-host NAME{folder}, for each host, \
             and annulus node add-submitter NAME{folder}.",
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
    Authority::open(folder)
        .with_context(|| format!("no authority; make one with annulus node init-ca --ring NAME{}", in_folder(folder)))
}

fn print_member(as_json: bool, authority: &Authority, role: Role, name: &HostName, files: &HostFiles) -> Result<()> {
    let ring = authority.ring();
    let HostFiles { authority, certificate, key } = files;
    let object = json!({
        "ring": ring.as_str(), role.name(): name.as_str(), "authority": authority, "certificate": certificate, "key": key
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
