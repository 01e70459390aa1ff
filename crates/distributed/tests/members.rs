//! Workers with certificates serve the members of their ring, and no others.

mod common;

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream as BlockingStream},
    path::Path,
    sync::Arc,
};

use annulus_distributed::{ClusterReport, Connections};
use annulus_roundabout::secure::{Authority, Identity, Role};
use common::{Cluster, register, rows, stock, write_tables};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::future::{join, join_all};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::spawn_blocking};

const QUERY: &str = "SELECT k, count(*) FROM big GROUP BY k";

/// Returns the identities of two hosts and of a submitter of a new ring.
fn ring(folder: &Path, name: &str) -> [Identity; 3] {
    let folder = folder.join(name);
    std::fs::create_dir(&folder).unwrap();
    let authority = Authority::create(&folder, name.parse().unwrap()).unwrap();
    for host in ["alpha", "beta"] {
        authority.add_host(&host.parse().unwrap(), &["127.0.0.1".to_owned()]).unwrap();
    }
    authority.add_submitter(&"me".parse().unwrap()).unwrap();
    [(Role::Host, "alpha"), (Role::Host, "beta"), (Role::Submitter, "me")]
        .map(|(role, name)| Identity::in_folder(&folder, role, Some(&name.parse().unwrap())).unwrap())
}

/// Asks a worker with the certificate of a submitter of the ring `name` that expired long ago, and returns what
/// it answers.
fn expired(folder: &Path, name: &str, worker: SocketAddr) -> String {
    let of_ring = |file| folder.join(name).join(file);
    // Only the name of the issuer is in what it signs.
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = rcgen::DistinguishedName::new();
    issuer.distinguished_name.push(DnType::CommonName, format!("Annulus ring {name}"));
    let authority = KeyPair::from_pem(&std::fs::read_to_string(of_ring("ca-key.pem")).unwrap()).unwrap();
    let (mut params, key) = (CertificateParams::default(), KeyPair::generate().unwrap());
    params.subject_alt_names = vec![SanType::URI(format!("annulus://{name}/submitter/me").try_into().unwrap())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    let certificate = params.signed_by(&key, &Issuer::from_params(&issuer, &authority)).unwrap();

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(of_ring("ca.pem")).unwrap()).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"annulus-worker/1".to_vec()];
    let name = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into());
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, BlockingStream::connect(worker).unwrap());
    let asked = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").and_then(|()| stream.flush());
    asked.and_then(|()| stream.read(&mut [0; 1])).unwrap_err().to_string()
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

    // Fifty strangers at each worker, that say nothing or nothing sensible, and some with certificates that
    // have expired or are of another ring, hold up no query.
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
    let worker = cluster.workers.urls()[0].socket_addrs(|| None).unwrap()[0];
    let late = (0..10).map(|_| {
        let folder = folder.path().to_owned();
        spawn_blocking(move || expired(&folder, "ours", worker))
    });
    let (ours, (others, late)) = join(ask(Some(me)), join(others, join_all(late))).await;
    assert!(ours.unwrap() == expected);
    assert!(others.iter().all(Result::is_err));
    assert!(late.iter().all(|answer| answer.as_ref().unwrap().contains("CertificateExpired")), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_submitters_see_what_workers_do() {
    let folder = tempfile::tempdir().unwrap();
    let [alpha, beta, me] = ring(folder.path(), "ours");
    let hosts = [alpha.clone(), beta].map(|host| (Arc::new(RuntimeEnv::default()), Some(host)));
    let cluster = Cluster::start_as(hosts).await;
    let all = async |identity: Identity| {
        ClusterReport::ask(&cluster.workers, &Connections::default().with_identity(identity)).await.workers
    };
    let seen = all(me).await;
    assert!(seen.len() == 2 && seen.iter().all(|worker| worker.report.as_ref().is_some_and(|report| report.ready)));
    for worker in all(alpha).await {
        let error = worker.error.unwrap();
        assert!(error.contains("host alpha of ring ours may not see queries"), "{error}");
    }
}

/// All members get new certificates, of a new authority even, while the workers serve.
#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificates_are_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    write_tables(folder.path()).await;
    let [alpha, beta, me] = ring(folder.path(), "ours");
    let hosts = [alpha, beta].map(|host| (Arc::new(RuntimeEnv::default()), Some(host)));
    let cluster = Cluster::start_as(hosts).await;
    let ask = async |identity: Identity| {
        let session = cluster.session_of(Some(identity), &[]).await;
        register(&session, folder.path()).await;
        rows(&session, QUERY).await
    };
    let expected = ask(me.clone()).await.unwrap();
    let (ours, former) = (folder.path().join("ours"), folder.path().join("former"));
    std::fs::create_dir(&former).unwrap();
    for file in std::fs::read_dir(&ours).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(file.path(), former.join(file.file_name())).unwrap();
    }
    let as_before = Identity::in_folder(&former, Role::Submitter, None).unwrap();
    std::fs::remove_dir_all(&ours).unwrap();
    let [.., renewed] = ring(folder.path(), "ours");
    assert_eq!(ask(renewed).await.unwrap(), expected);
    // One that was loaded before finds the new files, too.
    assert_eq!(ask(me).await.unwrap(), expected);
    let refused = ask(as_before).await.unwrap_err().to_string();
    assert!(refused.contains("worker 127.0.0.1:"), "{refused}");
}
