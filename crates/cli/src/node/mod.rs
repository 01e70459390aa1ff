//! `annulus node`: who belongs to a ring of hosts, and being one of them.

mod args;

use std::{
    io::{Write, stdout},
    path::Path,
    sync::Arc,
    thread,
};

use annulus_cluster::{
    host::Member,
    node::{Log, Node},
    ring_file::RingFile,
};
use annulus_roundabout::secure::Authority;
use anyhow::{Context, Result, bail};
pub use args::{AddHostArgs, InitCaArgs, NodeArgs, NodeCommand};
use serde_json::json;

use crate::{interrupt::Signals, run::Outcome};

/// Makes the files that are asked for, and prints which; or is a host until a signal comes.
pub async fn run(args: &NodeArgs) -> Result<Outcome> {
    match (&args.command, &args.ring) {
        (Some(NodeCommand::InitCa(args)), _) => init_ca(args).map(|()| Outcome::Done),
        (Some(NodeCommand::AddHost(args)), _) => add_host(args).map(|()| Outcome::Done),
        (None, Some(ring)) => serve(args, ring).await,
        (None, None) => bail!("say what to do: --ring FILE to be a host, or init-ca, or add-host"),
    }
}

/// Until a signal comes, which ends a join that runs: nothing of this host's is left.
async fn serve(args: &NodeArgs, ring: &Path) -> Result<Outcome> {
    let mut signals = Signals::all()?;
    let file = RingFile::load(ring)?;
    let identity = file.identity(args.name.as_ref())?;
    let host = file.host(&identity.member().host)?.clone();
    if file.trusted_network {
        eprintln!("rows go from host to host in the clear, since {} says trusted_network = true", ring.display());
    }
    let node = Arc::new(Node::listen(Member { file, identity }, args.timeout)?);
    eprintln!("host {} takes orders at {}", host.name, host.control);
    let log: Arc<dyn Log> = Arc::new(Stderr);
    let running = Arc::clone(&node);
    thread::Builder::new().name("node".to_owned()).spawn(move || running.run(&log))?;
    let signal = signals.next().await;
    node.stop();
    Ok(Outcome::Interrupted(signal))
}

/// A line for whatever happens.
struct Stderr;

impl Log for Stderr {
    fn said(&self, what: &str) {
        eprintln!("{what}");
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
