//! Orders to a node from a coordinator that may be any program.

use std::{
    fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use annulus_dataset::{Compression, Existing, InputOptions, OutputFormat};
use annulus_join::{JoinType, Side, Sides};
use annulus_roundabout::secure::{Authority, HostFiles, HostName, Identity};
use tempfile::TempDir;

use super::*;
use crate::{
    Access,
    control::{Files, HostOutput, InputTask, JoinTask, Neighbours, Resources, RingTask, Task, schema_to},
    job::{Algorithm, Input, JoinKind, Query},
    ring_file::RingFile,
};

/// A folder with the files of a ring of one host, and inputs.
struct Scene {
    folder: TempDir,
    member: Member,
}

impl Scene {
    /// Returns a scene in which joins may read below `in`, and write below `out`.
    fn new(step_timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["in", "out", "secret"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for file in ["in/a.csv", "secret/b.csv"] {
            fs::write(root.join(file), "k\n1\n2\n").unwrap();
        }
        let name: HostName = "alpha".parse().unwrap();
        let certificates = root.join("certs");
        let authority = Authority::create(&certificates, "ring".parse().unwrap()).unwrap();
        let HostFiles { authority, certificate, key } = authority.add_host(&name, &[]).unwrap();
        let identity = Identity::load(&authority, &certificate, &key).unwrap();
        let file = "certificates = 'certs'\n[[host]]\nname = 'alpha'\ncontrol = 'localhost:1'\ndata = 'localhost:2'\n";
        fs::write(root.join("ring.toml"), file).unwrap();
        let file = RingFile::load(&root.join("ring.toml")).unwrap();
        let access = Access::new(&[root.join("in")], &[root.join("out")], &certificates).unwrap();
        Self { member: Member { file, identity, access, step_timeout }, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns a join of all rows of two inputs.
    fn task(&self, left: &str, right: &str, output: &str) -> Task {
        let input = |name: &str, path: &str| Input {
            name: name.to_owned(),
            paths: vec![self.path(path)],
            options: InputOptions::default(),
        };
        let dataset = annulus_dataset::Dataset::open(&[self.path("in/a.csv")], &InputOptions::default()).unwrap();
        let schema = schema_to(&dataset.schema).unwrap();
        let query = Query {
            left: input("a", left),
            right: input("b", right),
            on: vec![("k".to_owned(), "k".to_owned())],
            condition: None,
            join: JoinKind(JoinType::Inner),
            select: None,
            suffix: "_b".to_owned(),
        };
        let input = InputTask { schema, units: None, files: Files::of(&dataset) };
        Task {
            join: JoinTask {
                query,
                now_ns: 0,
                rotate: Side::Right,
                algorithm: Algorithm::Hash,
                revolutions: 1,
                single: None,
            },
            inputs: Sides { left: input.clone(), right: input },
            ring: RingTask {
                host: 0,
                hosts: 1,
                session: 7,
                neighbours: Neighbours::Ring(vec!["alpha".to_owned()]),
                fragment_bytes: 1 << 16,
                buffers: 4,
                timeout_ms: 5000,
            },
            resources: Resources { threads: Some(1), memory_bytes: None, kept_bytes: 0 },
            output: HostOutput {
                dir: self.path(output).into(),
                member: 0,
                format: OutputFormat::Parquet,
                compression: Compression::None,
                existing: Existing::Overwrite,
            },
        }
    }

    /// Returns the last report of the host.
    fn last_report(&self, task: Option<Task>) -> Report {
        let ((sender, reports), (entered, has_entered)) = (channel(), channel());
        let orders = Talking::new(task, has_entered);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let seat = Arc::new(Arc::new(Queue::default()).seat(socket).unwrap());
        let entry_timeout = self.member.step_timeout;
        let admission = Admission { member: self.member.clone(), seat, entry_timeout };
        serve_at(orders, Sent(sender, entered), Some(admission), Stop::default()).unwrap();
        let line: Vec<u8> = reports.iter().flatten().collect();
        let mut reports = LineReader::<_, Report>::new(&line[..]).map(Result::unwrap);
        reports.by_ref().filter(|report| !matches!(report, Report::Alive(_))).last().unwrap()
    }

    #[track_caller]
    fn fails(&self, task: Task) -> String {
        let report = self.last_report(Some(task));
        let Report::Failed { reason, other: None } = report else { panic!("{report:?}") };
        reason
    }
}

/// Passes reports on, and signals when the host has entered the join.
struct Sent(Sender<Vec<u8>>, Sender<()>);

impl Write for Sent {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.starts_with(b"\"Entered\"") {
            self.1.send(()).ok();
        }
        self.0.send(data.to_owned()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A coordinator that orders a task, if it has one, and then reports endlessly that it is alive.
struct Talking {
    line: Vec<u8>,
    task: Option<Vec<u8>>,
    has_entered: Receiver<()>,
}

impl Talking {
    fn new(task: Option<Task>, has_entered: Receiver<()>) -> Self {
        let first = if task.is_some() { Order::Enter { wait: false } } else { Order::Heard };
        Self { line: line(&first), task: task.map(|task| line(&Order::Load(Box::new(task)))), has_entered }
    }
}

impl Read for Talking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.line.is_empty() {
            self.line = match self.task.take() {
                Some(task) => {
                    self.has_entered.recv().ok();
                    task
                }
                None => line(&Order::Heard),
            };
        }
        let bytes = self.line.len().min(into.len());
        into[..bytes].copy_from_slice(&self.line[..bytes]);
        self.line.drain(..bytes);
        Ok(bytes)
    }
}

fn line(order: &Order) -> Vec<u8> {
    let writer = LineWriter::new(Vec::new());
    writer.write(order).unwrap();
    writer.into_inner()
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn what_lies_outside_the_nodes_folders_is_not_read() {
    let scene = Scene::new(LONG);
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("in/link")).unwrap();
    let secret = ["secret", "secret/b.csv", "secret/*.csv", "in/link", "in/link/b.csv", "in/../secret/b.csv", "certs"];
    for input in secret {
        for task in [scene.task(input, "in/a.csv", "out/o"), scene.task("in/a.csv", input, "out/o")] {
            let reason = scene.fails(task);
            assert!(reason.contains("cannot read '") && reason.contains("outside the folders"), "'{input}': {reason}");
        }
    }
    let mut relative = scene.task("in/a.csv", "in/a.csv", "out/o");
    relative.join.query.left.paths = vec!["-".to_owned()];
    assert!(scene.fails(relative).contains("cannot read '-'"));
}

#[test]
fn what_lies_outside_the_nodes_folders_is_not_written() {
    let scene = Scene::new(LONG);
    fs::create_dir(scene.path("out/o")).unwrap();
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("out/link")).unwrap();
    std::os::unix::fs::symlink(scene.path("secret"), scene.path("out/o/host-00")).unwrap();
    for output in ["o", "secret", "out/link", "out/link/o", "out/../o", "out/o"] {
        let reason = scene.fails(scene.task("in/a.csv", "in/a.csv", output));
        assert!(reason.contains("cannot write to '") && reason.contains("outside the folders"), "'{output}': {reason}");
    }
    assert_eq!(fs::read_dir(scene.path("secret")).unwrap().count(), 1);
}

/// The coordinator checks only the files that it sees itself.
#[test]
fn a_host_does_not_delete_its_own_inputs() {
    let mut scene = Scene::new(LONG);
    let own = "out/o/host-00";
    fs::create_dir_all(scene.path(own)).unwrap();
    fs::copy(scene.path("in/a.csv"), scene.path("out/o/host-00/part-00000.csv")).unwrap();
    scene.member.access =
        Access::new(&[scene.path("").into()], &[scene.path("out").into()], Path::new("certs")).unwrap();
    for input in [own, "out/o/host-00/part-00000.csv"] {
        let reason = scene.fails(scene.task("in/a.csv", input, "out/o"));
        assert!(reason.contains("out/o"), "{reason}");
        assert!(Path::new(&scene.path("out/o/host-00/part-00000.csv")).exists());
    }
}

#[test]
fn a_host_does_not_write_into_its_own_inputs() {
    let mut scene = Scene::new(LONG);
    scene.member.access =
        Access::new(&[scene.path("").into()], &[scene.path("in").into()], Path::new("certs")).unwrap();
    for input in ["in", "in/*", "in/**/*.parquet"] {
        let reason = scene.fails(scene.task(input, "in/a.csv", "in/o"));
        assert!(reason.contains("would read what is written there"), "'{input}': {reason}");
    }
    assert!(!Path::new(&scene.path("in/o")).exists());
}

/// The coordinator is alive, but does not order the next step.
#[test]
fn a_node_is_not_held_forever() {
    let scene = Scene::new(Duration::from_millis(50));
    let report = scene.last_report(Some(scene.task("in/a.csv", "in/a.csv", "out/o")));
    let Report::Failed { reason, other: None } = report else { panic!("{report:?}") };
    assert!(reason.contains("the next step was not ordered within 0.05 s"), "{reason}");
    assert!(!Path::new(&scene.path("out/o/host-00")).exists());
}

#[test]
fn a_node_is_not_held_by_a_coordinator_that_orders_nothing() {
    let scene = Scene::new(Duration::from_millis(50));
    let report = scene.last_report(None);
    assert!(matches!(&report, Report::Failed { reason, .. } if reason.contains("the next step")), "{report:?}");
}
