//! Measures the throughput and processor time of 1 MiB messages sent one way over loopback between
//! two threads: by plain TCP, by a secure connection, and by rustls's own stream.
//!
//! `cargo bench -p annulus-roundabout --bench secure_throughput -- [MESSAGES [ROUNDS]]`

use std::{
    error::Error,
    hash::{BuildHasher, RandomState},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::Arc,
    thread,
    time::Instant,
};

use annulus_roundabout::secure::{Authority, HostFiles, Identity, accept, connect};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::TLS13,
};

type Failure = Box<dyn Error + Send + Sync>;
type Sender = Box<dyn Write + Send>;
type Receiver = Box<dyn Read + Send>;
type Connect<'a> = Box<dyn Fn() -> Result<(Sender, Receiver), Failure> + 'a>;

/// The number of messages in memory, as in a ring's buffers: more than a core's cache holds.
const SLOTS: usize = 16;
const MESSAGE: usize = 1 << 20;

fn main() -> Result<(), Failure> {
    // Cargo adds `--bench` to the arguments.
    let arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let mut arguments = arguments.map(|argument| argument.parse());
    let messages = arguments.next().transpose()?.unwrap_or(2048);
    let rounds = arguments.next().transpose()?.unwrap_or(9);
    let folder = tempfile::tempdir()?;
    let authority = Authority::create(folder.path(), "bench".parse()?)?;
    let files = authority.add_host(&"a".parse()?, &["localhost".to_owned()])?;

    let kinds: [(&str, Connect<'_>); 3] = [
        ("plain TCP", Box::new(plain)),
        ("secure", Box::new(|| secure(&files))),
        ("rustls alone", Box::new(|| alone(&files))),
    ];
    let mut figures = vec![(Vec::new(), Vec::new()); kinds.len()];
    // The first round is checked and not timed.
    for round in 0..=rounds {
        for ((name, connection), (rates, costs)) in kinds.iter().zip(&mut figures) {
            let (rate, cost) = transfer(connection()?, if round == 0 { SLOTS } else { messages }, round == 0)
                .map_err(|error| format!("{name}: {error}"))?;
            if round > 0 {
                rates.push(rate);
                costs.push(cost);
            }
        }
    }
    println!("{messages} messages of 1 MiB, one way, {rounds} rounds in turn: median (least to most)");
    println!("{:>14} {:>24} {:>32}", "", "GB/s", "processor time, s/GB");
    for ((name, _), (rates, costs)) in kinds.iter().zip(&mut figures) {
        println!("{name:>14} {:>24} {:>32}", summary(rates), summary(costs));
    }
    Ok(())
}

fn summary(figures: &mut [f64]) -> String {
    figures.sort_by(f64::total_cmp);
    let at = |place: usize| figures[place];
    format!("{:.2} ({:.2} to {:.2})", at(figures.len() / 2), at(0), at(figures.len() - 1))
}

/// Returns the processor time of this process, which the kernel reports in hundredths of a second.
fn processor_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no command in /proc/self/stat")?;
    let ticks: Result<Vec<f64>, _> = fields.split_whitespace().skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<f64>() / 100.0)
}

/// Sends messages from one thread to another. Returns GB/s, and seconds of processor time per GB.
fn transfer(
    (mut sender, mut receiver): (Sender, Receiver),
    messages: usize,
    check: bool,
) -> Result<(f64, f64), Failure> {
    let hasher = RandomState::new();
    let mut source = vec![vec![0u8; MESSAGE]; SLOTS];
    for (slot, message) in source.iter_mut().enumerate() {
        for (place, byte) in message.iter_mut().enumerate() {
            *byte = (place * 31 + slot * 7 + place / 251) as u8;
        }
    }
    let sums: Vec<u64> = source.iter().map(|message| hasher.hash_one(message)).collect();
    let mut target = vec![vec![0u8; MESSAGE]; SLOTS];
    let (start, cpu) = (Instant::now(), processor_seconds()?);
    let sending = thread::spawn(move || -> Result<Sender, std::io::Error> {
        for message in 0..messages {
            sender.write_all(&source[message % SLOTS])?;
        }
        sender.flush()?;
        Ok(sender)
    });
    for message in 0..messages {
        let slot = &mut target[message % SLOTS];
        receiver.read_exact(slot)?;
        if check && hasher.hash_one(&*slot) != sums[message % SLOTS] {
            return Err(format!("message {message} is not what was sent").into());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let _sender = sending.join().map_err(|_| "the sender panicked")??;
    let gigabytes = (messages * MESSAGE) as f64 / 1e9;
    Ok((gigabytes / seconds, (processor_seconds()? - cpu) / gigabytes))
}

fn pair() -> Result<(TcpStream, TcpStream), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

fn plain() -> Result<(Sender, Receiver), Failure> {
    let (near, far) = pair()?;
    Ok((Box::new(near), Box::new(far)))
}

fn secure(files: &HostFiles) -> Result<(Sender, Receiver), Failure> {
    let identity = Identity::load(&files.authority, &files.certificate, &files.key)?;
    let (near, far) = pair()?;
    let other = identity.clone();
    let accepting = thread::spawn(move || accept(far, &other));
    let sender = connect(near, &identity, &identity.member().host)?;
    let (receiver, _) = accepting.join().map_err(|_| "the accepting side panicked")??;
    Ok((Box::new(sender), Box::new(receiver)))
}

/// Uses rustls directly, with the same cipher.
fn alone(files: &HostFiles) -> Result<(Sender, Receiver), Failure> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    });
    let certificate = |path: &Path| CertificateDer::from_pem_file(path);
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&files.authority)?)?;
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate(&files.certificate)?], PrivateKeyDer::from_pem_file(&files.key)?)?;
    let (mut near, mut far) = pair()?;
    let mut client = ClientConnection::new(Arc::new(client), "localhost".try_into()?)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    let accepting = thread::spawn(move || server.complete_io(&mut far).map(|_| (server, far)));
    client.complete_io(&mut near)?;
    let (server, far) = accepting.join().map_err(|_| "the accepting side panicked")??;
    Ok((Box::new(StreamOwned::new(client, near)), Box::new(StreamOwned::new(server, far))))
}
