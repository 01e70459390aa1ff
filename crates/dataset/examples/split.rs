//! Splits a CSV file by a key into Parquet files, appends another file, and prints the content of
//! the files: `cargo run -p annulus-dataset --example split`

use std::{error::Error, fs};

use annulus_dataset::{CancelToken, ExistingPolicy, JobSpec, Manifest, NoProgress, OutputFormat, OutputOptions, split};

/// Splits the file `input` by its column `city` into three partitions.
fn split_by_city(input: &str, output: OutputOptions) -> Result<Manifest, Box<dyn Error>> {
    let mut spec = JobSpec::new(vec![input.to_owned()], output);
    spec.by = vec!["city".to_owned()];
    spec.into = Some(3);
    // A terminal program would show the progress, and Ctrl-C would cancel the token.
    Ok(split(&spec.plan()?, &NoProgress, &CancelToken::new())?.manifest)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("annulus-split-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("may.csv"), "city,sales\nBern,10\nOslo,20\nZurich,30\nBern,40\n")?;
    fs::write(path("june.csv"), "city,sales\nOslo,50\n")?;

    let mut output = OutputOptions::new(path("parts"), OutputFormat::Parquet);
    split_by_city(&path("may.csv"), output.clone())?;
    output.existing = ExistingPolicy::Append;
    let manifest = split_by_city(&path("june.csv"), output)?;
    for file in manifest.partitions.iter().flat_map(|partition| &partition.files) {
        println!("{}: {} rows, {} bytes", file.name, file.rows, file.bytes);
    }
    Ok(fs::remove_dir_all(folder)?)
}
