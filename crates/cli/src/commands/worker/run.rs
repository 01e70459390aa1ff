//! Serves until a signal arrives.

use std::{
    future::{Future, pending},
    io::{self, Read, Write, stdin, stdout},
    net::ToSocketAddrs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use annulus_distributed::{AnnulusWorker, Connections, Roots, Server, StatusServer, WorkerFiles};
use annulus_roundabout::secure::{Authority, Identity, Role};
#[cfg(feature = "ofi")]
use annulus_roundabout::{RingConfig, fabric::FabricOptions};
use anyhow::{Context, Result, bail};
use futures::FutureExt;
use serde_json::json;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{
    args::{WorkerArgs, WorkerCommand},
    certificates, config, ping, status,
    stores::WorkerStores,
};
use crate::{
    child, credentials,
    interrupt::{Signals, until_interrupted},
    logging,
    outcome::Outcome,
    runtime, session,
};

/// Runs a worker until a signal arrives, asks others, or creates certificates.
pub fn run(args: WorkerArgs) -> Result<Outcome> {
    match &args.command {
        None => {}
        Some(WorkerCommand::InitCa(args)) => return certificates::init_ca(args).map(|()| Outcome::Done),
        Some(WorkerCommand::AddHost(args)) => return certificates::add_host(args).map(|()| Outcome::Done),
        Some(WorkerCommand::AddSubmitter(args)) => return certificates::add_submitter(args).map(|()| Outcome::Done),
        Some(WorkerCommand::Ping(args)) => return runtime::run(until_interrupted(ping::run(args))),
        Some(WorkerCommand::Status(args)) => return runtime::run(until_interrupted(status::run(args))),
    }
    let args = config::complete(args)?;
    runtime::run_with_spill(args.threads, args.memory_bytes, async |spill| serve(&args, spill).await)
}

async fn serve(args: &WorkerArgs, spill: &Path) -> Result<Outcome> {
    let signals = Signals::all()?;
    let identity = identity(args)?;
    let roots = |folders: &[PathBuf]| {
        let roots = Roots::new(folders)?;
        args.certificates.iter().try_fold(roots, |roots, keys| roots.without_files_of(credentials::folder(keys)))
    };
    let read = roots(&args.allow_read).context("invalid --allow-read")?;
    let write = roots(&args.allow_write).context("invalid --allow-write")?;
    let stores = Arc::new(WorkerStores::new(read.clone()));
    let runtime = session::runtime(args.memory_bytes, args.disk_bytes, spill, Some(stores))?;
    let mut connections = Connections::new(args.silence);
    if let Some(identity) = &identity {
        connections = connections.with_identity(identity.clone());
    }
    #[cfg(feature = "ofi")]
    if let Some(name) = &args.fabric {
        let options = FabricOptions::named(name);
        let is_here = |node| is_local(&format!("{node}:0")).unwrap_or(false);
        let stays_here = options == FabricOptions::new("shm") || options.node.is_some_and(is_here);
        if identity.is_none() && !args.insecure && !stays_here {
            bail!(
                "cannot use --fabric {name}: without --certificates, anyone who reaches it can change rows; name an \
                 address of this machine alone, as in tcp@127.0.0.1, or allow it with --insecure"
            );
        }
        options.check(&RingConfig::default()).context("--fabric")?;
        connections = connections.with_fabric(name);
    }
    let (files, most) = (WorkerFiles { read, write }, args.max_queries.unwrap_or(usize::MAX));
    let worker = AnnulusWorker::with_limits(runtime, connections, files, most);
    let status = match &args.status {
        Some(address) => Some(StatusServer::bind(address, worker.status()).await.context("--status")?),
        None => None,
    };
    let mut server = Server::bind(&args.listen, worker).await?;
    server = server.with_silence(args.silence);
    if let Some(identity) = identity {
        server = server.with_identity(identity);
    }
    match args.child_of {
        Some(parent) => serve_parent(server, parent, signals).await,
        None => {
            logging::to_stderr()?;
            let serving = serve_all(server, args, signals);
            let Some(status) = status else { return serving.await };
            info!("status at http://{}", status.address()?);
            tokio::select! {
                outcome = serving => outcome,
                failed = status.serve() => failed.map(|()| Outcome::Done).context("--status"),
            }
        }
    }
}

/// Returns the certificate of the worker, if it has one.
///
/// # Errors
/// If it is missing where others reach the worker, or its folder has the key of the ring's authority.
fn identity(args: &WorkerArgs) -> Result<Option<Identity>> {
    let identity = match &args.certificates {
        Some(certificates) => Some(credentials::load(certificates, args.name.as_ref(), Role::Host)?),
        None if args.insecure || is_local(&args.listen)? => None,
        None => bail!(
            "cannot listen at {}: without --certificates, anyone who reaches it can run queries; use an address of \
             this machine alone, such as 127.0.0.1:7500, or allow it with --insecure",
            args.listen
        ),
    };
    if let Some(certificates) = args.certificates.iter().find(|_| args.child_of.is_none()) {
        let key = Authority::key_path(credentials::folder(certificates));
        if key.exists() {
            bail!(
                "'{}' must not be on a worker: its owner can add members to the ring; move it to another machine",
                key.display()
            );
        }
    }
    Ok(identity)
}

/// Serves the process `parent`, which started this one, until it ends or a signal arrives.
async fn serve_parent(server: Server, parent: u32, mut signals: Signals) -> Result<Outcome> {
    logging::warnings_to_stderr()?;
    let input = end_of_input()?;
    if !child::end_with(parent)? {
        return Ok(Outcome::Done);
    }
    let mut out = stdout();
    let line = json!({ "listening": server.address()?.to_string() });
    writeln!(out, "{line}").and_then(|()| out.flush()).context("cannot print the address")?;
    tokio::select! {
        ended = server.serve(pending(), Default::default()) => ended.map(|_| Outcome::Done).map_err(Into::into),
        () = input => Ok(Outcome::Done),
        signal = signals.next() => Ok(Outcome::Interrupted(signal)),
    }
}

/// Serves all who connect, until a signal arrives and the running queries have ended.
async fn serve_all(server: Server, args: &WorkerArgs, mut signals: Signals) -> Result<Outcome> {
    let address = server.address()?;
    if args.insecure {
        warn!("connections are not encrypted: anyone who reaches {address} can run queries");
    }
    info!("serving at {address}");
    let (stopping, stopped) = oneshot::channel::<()>();
    let mut serving = Box::pin(server.serve(stopped.map(|_| ()), args.drain));
    let signal = tokio::select! {
        ended = &mut serving => return ended.map(|_| Outcome::Done).map_err(Into::into),
        signal = signals.next() => signal,
    };
    stopping.send(()).ok();
    info!("signal {signal}: running queries have {} s to end", args.drain.as_secs());
    let ended = tokio::select! {
        ended = serving => ended?,
        _ = signals.next() => false,
    };
    info!("{}", if ended { "stopped" } else { "stopped before all queries had ended" });
    Ok(Outcome::Interrupted(signal))
}

/// Returns whether only this machine can reach an address.
fn is_local(address: &str) -> Result<bool> {
    let mut resolved = address.to_socket_addrs().with_context(|| format!("invalid --listen '{address}'"))?;
    Ok(resolved.all(|address| address.ip().is_loopback()))
}

/// Returns a future that ends with standard input. A thread of its own reads it, since a worker
/// thread could not be stopped while it waits.
fn end_of_input() -> io::Result<impl Future<Output = ()>> {
    let (ending, ended) = oneshot::channel::<()>();
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        io::copy(&mut stdin().lock().by_ref(), &mut io::sink()).ok();
        drop(ending);
    })?;
    Ok(ended.map(|_| ()))
}
