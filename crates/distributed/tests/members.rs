//! Workers with certificates serve the members of their ring, and no others.

mod common;

use std::{path::Path, sync::Arc};

use annulus_distributed::{Channels, ClusterReport};
use annulus_roundabout::secure::{Authority, Identity, Role};
use common::{Cluster, register, rows, stock, write_tables};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::future::{join, join_all};
use tokio::{io::AsyncWriteExt, net::TcpStream};

const QUERY: &str = "SELECT k, count(*) FROM big GROUP BY k";

/// Returns the identities of two hosts and of a submitter of a new ring.
fn ring(folder: &Path, name: &str) -> [Identity; 3] {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    let authority = Authority::create(&folder, name.parse().unwrap()).unwrap();
    for host in ["alpha", "beta"] {
        authority.add_host(&host.parse().unwrap(), &[]).unwrap();
    }
    authority.add_submitter(&"me".parse().unwrap()).unwrap();
    [(Role::Host, "alpha"), (Role::Host, "beta"), (Role::Submitter, "me")]
        .map(|(role, name)| Identity::in_folder(&folder, role, Some(&name.parse().unwrap())).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_submitters_of_the_ring_send_queries() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let one = stock();
    register(&one, folder.path()).await;
    let expected = rows(&one, QUERY).await.unwrap();

    let [alpha, beta, me] = ring(folder.path(), "ours");
    let [_, _, stranger] = ring(folder.path(), "theirs");
    let hosts = [alpha.clone(), beta].map(|host| (Arc::new(RuntimeEnv::default()), Some(host)));
    let cluster = Cluster::start_as(hosts).await;
    let ask = async |identity: Option<Identity>| {
        let session = cluster.session_of(identity, &[]).await;
        register(&session, folder.path()).await;
        rows(&session, QUERY).await.map_err(|error| error.to_string())
    };
    assert!(ask(Some(me.clone())).await.unwrap() == expected);
    let refused = ask(Some(alpha)).await.unwrap_err();
    assert!(refused.contains("host alpha of ring ours may not send queries"), "{refused}");
    let refused = ask(Some(stranger.clone())).await.unwrap_err();
    assert!(refused.contains("worker 127.0.0.1:"), "{refused}");
    let refused = ask(None).await.unwrap_err();
    assert!(refused.contains("worker 127.0.0.1:"), "{refused}");

    // Fifty strangers at each worker, that say nothing or nothing sensible, and some with certificates of
    // another ring, hold up no query.
    let mut strangers = Vec::new();
    let garbage: Vec<u8> = (0..1000u32).map(|number| (number.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
    let texts =
        [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0x16, 3, 1, 255, 255], &garbage];
    for url in cluster.workers.urls() {
        for text in texts.into_iter().cycle().take(50) {
            let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).await.unwrap();
            // A connection that was closed is fine.
            stream.write_all(text).await.ok();
            strangers.push(stream);
        }
    }
    let others = join_all((0..10).map(|_| ask(Some(stranger.clone()))));
    let (ours, others) = join(ask(Some(me)), others).await;
    assert!(ours.unwrap() == expected);
    assert!(others.iter().all(Result::is_err));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_submitters_see_what_workers_do() {
    let folder = tempfile::tempdir().unwrap();
    let [alpha, beta, me] = ring(folder.path(), "ours");
    let hosts = [alpha.clone(), beta].map(|host| (Arc::new(RuntimeEnv::default()), Some(host)));
    let cluster = Cluster::start_as(hosts).await;
    let all = async |identity: Identity| {
        ClusterReport::ask(&cluster.workers, &Channels::default().with_identity(identity)).await.workers
    };
    let seen = all(me).await;
    assert!(seen.len() == 2 && seen.iter().all(|worker| worker.report.as_ref().is_some_and(|report| report.ready)));
    for worker in all(alpha).await {
        let error = worker.error.unwrap();
        assert!(error.contains("host alpha of ring ours may not see queries"), "{error}");
    }
}
