//! The command for programs that embed it: without signals, and without a terminal.

use std::{path::Path, sync::Arc, time::Duration};

use annulus_dataset::{CancelToken, DatasetError};
use anyhow::{Context, Result};
use clap::Parser;
use thiserror::Error;
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    args::PartitionArgs,
    report::{self, SplitResult},
    run::{SplitProgress, copy_inputs, split_files},
};
use crate::{errors, objects::Upload};

/// The time between two looks at whether an upload is to end.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Parser)]
#[command(name = "partition", no_binary_name = true, disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    args: PartitionArgs,
}

/// An option with a wrong value, or one that does not fit the others.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct InvalidOption(String);

/// Returns the error of a command line without its usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits the dataset that the words of a command line name, and returns its report as JSON. Inputs that are not
/// local files are copied to the folder `copies` first. Cancelled, it stops at the next batch; finished partitions
/// stay.
///
/// # Errors
/// If a word is wrong, an input cannot be read or the output not be written, or it was cancelled.
pub async fn split(
    words: &[String],
    copies: &Path,
    cancel: CancelToken,
    progress: Arc<impl SplitProgress + Send + Sync + 'static>,
) -> Result<String> {
    let line = Line::try_parse_from(words).map_err(|error| InvalidOption(first_line(&error)))?;
    let mut job = line.args.check().map_err(|error| InvalidOption(errors::text(&error)))?;
    let upload = match &job.url {
        Some(url) => Some(Upload::prepare(url, job.spec.output.existing).await?),
        None => None,
    };
    copy_inputs(&mut job.spec, copies).await?;
    let output = copies.join("result");
    if upload.is_some() {
        // Written here first.
        job.spec.output.dir.clone_from(&output);
    }
    let cancelled = cancel.clone();
    let done = spawn_blocking(move || split_files(job.spec, &cancel, &*progress)).await;
    let mut done = done.context("a worker panicked")??;
    if let Some(upload) = upload {
        let stop = async {
            while !cancelled.is_cancelled() {
                sleep(LOOK).await;
            }
        };
        if !upload.send_unless(&output, stop).await? {
            return Err(DatasetError::Cancelled.into());
        }
        done = SplitResult { dir: upload.url().to_owned(), ..done };
    }
    report::json(&done)
}
