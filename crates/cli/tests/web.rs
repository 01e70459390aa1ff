//! Files on web servers: those that send no parts of files, answer no questions about them, or refuse.

mod support;

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use support::Annulus;

/// A page as servers send it with an error.
const PAGE: &str = "<!DOCTYPE html>\n<html><body><h1>An error</h1></body></html>";

/// Serves files without ranges, at paths that may begin with `/nohead`, and a page with the status of other
/// paths. Returns the URL.
fn serve(files: HashMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = files.clone();
            thread::spawn(move || answer(&stream, &files).ok());
        }
    });
    url
}

fn answer(mut stream: &TcpStream, files: &HashMap<String, Vec<u8>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path, files.get(path.trim_start_matches("/nohead"))) {
        ("GET", _, Some(file)) => ("200 OK", file.as_slice()),
        ("HEAD", path, Some(file)) if !path.starts_with("/nohead") => ("200 OK", file.as_slice()),
        ("HEAD", ..) if path.starts_with("/nohead") => ("405 Method Not Allowed", PAGE.as_bytes()),
        ("GET" | "HEAD", "/forbidden.csv", _) => ("403 Forbidden", PAGE.as_bytes()),
        ("GET" | "HEAD", "/broken.csv", _) => ("500 Internal Server Error", PAGE.as_bytes()),
        ("GET" | "HEAD", ..) => ("404 Not Found", PAGE.as_bytes()),
        _ => ("501 Not Implemented", PAGE.as_bytes()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" { stream.write_all(body) } else { Ok(()) }
}

#[test]
fn files_are_read_from_servers_without_ranges() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let query = "SELECT value AS k, value % 7 AS v FROM range(20000)";
    for file in ["x.parquet", "x.csv"] {
        Annulus::new(["sql", query, "-o", file]).at(at).succeeds();
    }
    let read = |file: &str| (format!("/{file}"), fs::read(at.join(file)).expect("a file"));
    let url = serve(HashMap::from([read("x.parquet"), read("x.csv")]));
    for path in ["x.parquet", "x.csv", "nohead/x.parquet"] {
        let query = format!("SELECT count(*) AS n, sum(k) AS s FROM '{url}/{path}' WHERE v = 3");
        let done = Annulus::new(["sql", "--format", "csv", &query]).temp(at).succeeds();
        assert_eq!(done.stdout, "n,s\n2857,28567143\n", "{path}");
    }
    assert!(support::names(at).iter().all(|name| name.starts_with("x.")), "{:?}", support::names(at));
}

#[test]
fn errors_are_short_and_name_the_status() {
    let url = serve(HashMap::new());
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for (file, expected) in [
        (format!("{url}/missing.csv"), "404 Not Found"),
        (format!("{url}/missing.parquet"), "404 Not Found"),
        (format!("{url}/forbidden.csv"), "403 Forbidden"),
        (format!("{url}/broken.csv"), "500 Internal Server Error"),
        (format!("{url}/folder/"), "the server lists no folder '/folder': give the URLs of files"),
        (format!("http://{gone}/x.csv"), "Connection refused"),
    ] {
        let output = tempfile::tempdir().expect("a folder");
        for arguments in [
            vec!["sql".to_owned(), format!("SELECT * FROM '{file}'")],
            ["partition", &file, "--by", "k", "--into", "2", "-o", "parts"].map(str::to_owned).to_vec(),
        ] {
            let error = Annulus::new(&arguments).at(output.path()).fails().stderr;
            assert!(error.contains(&format!("cannot read '{file}': ")) && error.contains(expected), "{file}: {error}");
            assert!(error.len() < 200 && !error.contains(['<', '\n']) || error.trim().lines().count() == 1, "{error}");
        }
    }
}
