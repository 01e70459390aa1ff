//! CSV, JSON and Avro give the same columns and rows wherever they come from: files, URLs, pipes,
//! external tables and partition.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
};

use support::Annulus;

/// Serves the files of a folder by HTTP, until the test ends, and returns the URL.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let folder = folder.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            thread::spawn(move || answer(stream, &folder));
        }
    });
    url
}

fn answer(mut stream: TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    while let Some(Ok(request)) = lines.next() {
        let mut words = request.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        lines.by_ref().map_while(Result::ok).find(String::is_empty)?;
        let content = fs::read(folder.join(path.trim_start_matches('/')));
        let status = if content.is_ok() { "200 OK" } else { "404 Not Found" };
        let content = content.unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\
            Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        if method == "GET" {
            stream.write_all(&content).ok()?;
        }
    }
    Some(())
}

/// Returns what a query prints as CSV, or its error.
fn query(folder: &Path, sql: &str, options: &[&str]) -> String {
    let arguments = ["sql", "--format", "csv", sql].into_iter().chain(options.iter().copied());
    match Annulus::new(arguments).at(folder).tries() {
        Ok(done) => done.stdout,
        Err(failed) => format!("error: {}", failed.stderr),
    }
}

fn folder_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("written"));
    folder
}

/// Random texts as a column may have them, from a seed.
fn random_csv(mut seed: u64) -> String {
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % most
    };
    const KINDS: [&[&str]; 7] = [
        &["1", "20", "-3", ""],
        &["00123", "45678", "+7", " 1"],
        &["1.5", "2", "1e3", "NaN"],
        &["true", "FALSE"],
        &["2024-01-01", "1969-12-31"],
        &["2024-01-01T10:00:00Z", "2024-01-01T10:00:00.5+02:00", "2024-01-01T10:00:00"],
        &["x", "\"a,b\"", "\"two\nlines\"", "7"],
    ];
    let kinds: Vec<&[&str]> = (0..4).map(|_| KINDS[next(KINDS.len())]).collect();
    let mut text = "key,a,b,c,d\n".to_owned();
    for row in 0..next(20) + 1 {
        let values: Vec<&str> = kinds.iter().map(|kind| kind[next(kind.len())]).collect();
        text += &format!("{row},{}\n", values.join(","));
    }
    text
}

#[test]
fn a_file_has_the_same_rows_wherever_it_is() {
    for seed in 0..6 {
        let folder = folder_of(&[("t.csv", &random_csv(seed))]);
        let (path, url) = (folder.path(), serve(folder.path()));
        let rows = |from: &str| query(path, &format!("SELECT * FROM {from} ORDER BY key"), &[]);
        let types = |from: &str| query(path, &format!("DESCRIBE SELECT * FROM {from}"), &[]);
        let (expected, described) = (rows("'t.csv'"), types("'t.csv'"));
        assert!(expected.starts_with("key,"), "{expected}");
        for from in [format!("'{url}/t.csv'"), "read_csv('t.csv')".to_owned(), "'{t,t}.csv'".to_owned()] {
            assert_eq!((rows(&from), types(&from)), (expected.clone(), described.clone()), "{from}, seed {seed}");
        }
        for location in ["t.csv".to_owned(), format!("{url}/t.csv")] {
            let create = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{location}'");
            let found = query(path, &format!("{create}; SELECT * FROM t ORDER BY key"), &[]);
            assert_eq!(found, expected, "{location}, seed {seed}");
        }
        for (input, output) in [("t.csv", "p"), (&*format!("{url}/t.csv"), "q")] {
            let split = ["partition", input, "--by", "key", "--into", "2", "--output", output, "--format", "arrow"];
            Annulus::new(split).at(path).succeeds();
            let from = format!("'{output}'");
            assert_eq!((rows(&from), types(&from)), (expected.clone(), described.clone()), "{input}, seed {seed}");
        }
    }
}

#[test]
fn options_of_reading_hold_for_urls() {
    let folder = folder_of(&[("u.csv", "id,zip\n1,123\n2,456\n"), ("n.csv", "zip,name\n123,a\n")]);
    let (path, url) = (folder.path(), serve(folder.path()));
    let sql = format!("SELECT zip FROM '{url}/u.csv' ORDER BY id");
    for options in [&["--read", "all_text"][..], &["--all-text"], &["--types", "zip=text"]] {
        assert_eq!(query(path, &sql.replace("SELECT zip", "SELECT zip || '!' AS zip"), options), "zip\n123!\n456!\n");
    }
    let table = format!("t={url}/u.csv?types=zip=text");
    assert_eq!(query(path, "SELECT zip || '!' AS zip FROM t WHERE id = 1", &["-t", &table]), "zip\n123!\n");
    let left = format!("u={url}/u.csv");
    Annulus::new(["join", &left, "n=n.csv", "--on", "zip", "--output", "o"]).at(path).succeeds();
    assert_eq!(query(path, "SELECT id, name FROM 'o'", &[]), "id,name\n1,a\n");
    let failed = query(path, &format!("SELECT * FROM '{url}/none.csv'"), &[]);
    assert!(failed.starts_with("error: "), "{failed}");
    // Errors name the URL.
    let failed = query(path, &format!("SELECT * FROM '{url}/n.csv'"), &["--types", "name=int"]);
    assert!(failed.contains(&format!("'{url}/n.csv', line 2")), "{failed}");
}

#[test]
fn each_table_has_its_own_options() {
    let folder = folder_of(&[("a.csv", "id;v\n1;1,5\n"), ("b.csv", "#x\nid,v\n1,NA\n"), ("c.dat", "7,8\n")]);
    let path = folder.path();
    let sql = "SELECT a.v + 1 AS v, b.v IS NULL AS n FROM read_csv('a.csv', delim => ';', decimal_separator => ',') a \
        JOIN read_csv('b.csv', comment = '#', nullstr = ['NA', '-'], types = {'v': 'BIGINT'}) b USING (id)";
    assert_eq!(query(path, sql, &[]), "v,n\n2.5,true\n");
    let tables = ["-t", "a=a.csv?delimiter=;&decimal=,", "-t", "b=b.csv?comment=%23&null=NA&types=v=int"];
    assert_eq!(
        query(path, "SELECT a.v + 1 AS v, b.v IS NULL AS n FROM a JOIN b USING (id)", &tables),
        "v,n\n2.5,true\n"
    );
    assert_eq!(query(path, "SELECT * FROM 'c.dat?format=csv&names=x,y'", &[]), "x,y\n7,8\n");
    let failed = query(path, "SELECT * FROM read_csv('a.csv', delimitr => ';')", &[]);
    assert!(failed.contains("'delimitr'") && failed.contains("delimiter, quote"), "{failed}");
    let failed = query(path, "SELECT * FROM 'a.csv?delimitr=;'", &[]);
    assert!(failed.contains("'delimitr'"), "{failed}");
    let create = "CREATE EXTERNAL TABLE t (n INT, v VARCHAR) STORED AS CSV LOCATION 'a.csv' OPTIONS \
        ('format.delimiter' ';', 'format.has_header' 'true'); SELECT n, v FROM t";
    assert_eq!(query(path, create, &[]), "n,v\n1,\"1,5\"\n");
}

#[test]
fn rows_are_inserted_into_external_tables() {
    let folder = folder_of(&[]);
    fs::create_dir(folder.path().join("t")).expect("a folder");
    fs::write(folder.path().join("t/a.csv"), "id,zip\n1,00123\n").expect("written");
    let sql = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 't/' OPTIONS ('format.has_header' 'true'); \
        INSERT INTO t VALUES (2, '00456'); SELECT zip FROM t ORDER BY id";
    let found = query(folder.path(), sql, &[]);
    assert!(found.ends_with("zip\n00123\n00456\n"), "{found}");
}

/// DataFusion reads the folder of nulls as a text, and meets the record of the types.
#[test]
fn external_tables_of_folders_have_types_and_nulls() {
    let folder = folder_of(&[("x.csv", "k,v\n007,1\n,2\n5,3\n")]);
    let path = folder.path();
    let rows = "SELECT arrow_typeof(k) AS t, k, v FROM t ORDER BY v";
    let expected = "t,k,v\nUtf8,007,1\nUtf8,,2\nUtf8,5,3\n";
    for format in ["parquet", "arrow"] {
        let split = ["partition", "x.csv", "--by", "k", "--by-value", "--output", format, "--format", format];
        Annulus::new(split).at(path).succeeds();
        for by in ["", "PARTITIONED BY (k)", "PARTITIONED BY (\"k\")"] {
            let create = format!("CREATE EXTERNAL TABLE t STORED AS {format} {by} LOCATION '{format}/'");
            assert_eq!(query(path, &format!("{create}; {rows}"), &[]), expected, "{create}");
        }
    }
    let copy = "COPY (SELECT * FROM 'x.csv') TO 'c/' STORED AS PARQUET PARTITIONED BY (k)";
    Annulus::new(["sql", copy]).at(path).succeeds();
    let create = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'c/'";
    assert_eq!(query(path, &format!("{create}; {rows}"), &[]), expected);
    let declared = "CREATE EXTERNAL TABLE t (v BIGINT, k VARCHAR) STORED AS PARQUET PARTITIONED BY (k) LOCATION 'c/'";
    assert_eq!(query(path, &format!("{declared}; SELECT v FROM t WHERE k IS NULL"), &[]), "v\n2\n");
    let failed = query(path, "CREATE EXTERNAL TABLE t STORED AS PARQUET PARTITIONED BY (x) LOCATION 'c/'", &[]);
    assert!(failed.contains("no folders 'x=...'"), "{failed}");
}

#[test]
fn names_of_keys_can_be_quoted() {
    let folder = folder_of(&[("x.csv", "a B,v\n1,2\n")]);
    let copy = "COPY (SELECT * FROM 'x.csv') TO 'c/' STORED AS PARQUET PARTITIONED BY (\"a B\")";
    Annulus::new(["sql", copy]).at(folder.path()).succeeds();
    assert_eq!(query(folder.path(), "SELECT \"a B\", v FROM 'c'", &[]), "a B,v\n1,2\n");
}

#[test]
fn pipes_are_read_in_every_format() {
    let folder = folder_of(&[("x.csv", "a,b\n1,x\n2,y\n3,z\n"), ("x.json", "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n")]);
    let path = folder.path();
    for format in ["parquet", "arrow"] {
        let file = format!("x.{format}");
        Annulus::new(["sql", "SELECT * FROM 'x.csv'", "--output", &file]).at(path).succeeds();
    }
    let sum = "SELECT sum(a) AS s FROM t";
    for file in ["x.csv", "x.json", "x.parquet", "x.arrow"] {
        let content = fs::read(path.join(file)).expect("a file");
        for name in ["-", "/dev/stdin"] {
            let table = format!("t={name}");
            let done = Annulus::new(["sql", "--format", "csv", "-t", &table, sum]).at(path).input(&content);
            assert_eq!(done.stdout, "s\n6\n", "{file} on {name}");
        }
        let split = ["partition", "-", "--by", "a", "--into", "2", "--output", &format!("{file}.split"), "--json"];
        let done = Annulus::new(split).at(path).input(&content);
        assert!(done.stdout.contains("\"rows_in\": 3") || done.stdout.contains("\"rows_in\":3"), "{}", done.stdout);
    }
    // A pipe can be read more than once by a query, and a join reads one.
    let content = fs::read(path.join("x.csv")).expect("a file");
    let twice = "SELECT count(*) AS n FROM '-' l JOIN '-' r USING (a)";
    assert_eq!(Annulus::new(["sql", "--format", "csv", twice]).at(path).input(&content).stdout, "n\n3\n");
    Annulus::new(["join", "a=-", "b=x.json", "--on", "a", "--output", "o"]).at(path).input(&content);
    assert_eq!(query(path, "SELECT count(*) AS n FROM 'o'", &[]), "n\n3\n");
}

#[test]
fn copies_are_removed_when_a_pipe_is_interrupted() {
    let (folder, temporary) = (folder_of(&[]), tempfile::tempdir().expect("a folder"));
    let fifo = folder.path().join("f.csv");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let running = Annulus::new(["sql", "SELECT * FROM 'f.csv'"]).at(folder.path()).temp(temporary.path()).start();
    // It is open when the command has opened it, which then waits for more.
    let mut writer = fs::OpenOptions::new().write(true).open(&fifo).expect("a reader");
    writer.write_all(b"a\n1\n").expect("written");
    running.end_by("INT", 130);
    assert_eq!(fs::read_dir(temporary.path()).expect("a folder").count(), 0);
    drop(writer);
}

#[test]
fn columns_of_a_query_with_equal_names_are_read_back() {
    let folder = folder_of(&[]);
    let sql = "SELECT a.x, b.x FROM (VALUES (1)) a(x), (VALUES (2)) b(x)";
    for file in ["x.parquet", "x.arrow", "x.csv", "x.json"] {
        Annulus::new(["sql", sql, "--output", file]).at(folder.path()).succeeds();
        assert_eq!(query(folder.path(), &format!("SELECT x, x_1 FROM '{file}'"), &[]), "x,x_1\n1,2\n", "{file}");
    }
}
