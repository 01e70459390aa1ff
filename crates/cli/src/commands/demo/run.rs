//! Runs the commands in a new folder.

use std::{
    env, fs,
    io::{Write, stdout},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    args::DemoArgs,
    steps::{ANSWERS, Step, steps},
};
use crate::outcome::Outcome;

/// Runs the demonstration. `run` runs a command of this program, whose words it takes.
///
/// # Errors
/// If the folder exists, a command fails, or the answers differ. Then the folder is removed.
pub fn run(args: &DemoArgs, run: impl Fn(&[String]) -> Result<Outcome>) -> Result<Outcome> {
    let folder = &args.folder;
    let shown = folder.display();
    ensure!(!folder.exists(), "'{shown}' exists: remove it, or name another folder, as in annulus demo DIR");
    fs::create_dir_all(folder).with_context(|| format!("cannot create '{shown}'"))?;
    let before = env::current_dir().context("cannot find the current folder")?;
    env::set_current_dir(folder).with_context(|| format!("cannot enter '{shown}'"))?;
    let outcome = run_all(&steps(args.rows), run);
    env::set_current_dir(&before).context("cannot return to the previous folder")?;
    if !matches!(outcome, Ok(Outcome::Done)) {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove '{shown}'"))?;
        return outcome;
    }
    writeln!(stdout(), "The files are in '{shown}'. Change the commands there, or ask your own questions:")?;
    writeln!(stdout(), "\n  cd {}\n  annulus sql\n", quoted(&folder.to_string_lossy()))?;
    outcome
}

/// Runs the commands one after the other, until one does not succeed, and compares the answers.
fn run_all(steps: &[Step], run: impl Fn(&[String]) -> Result<Outcome>) -> Result<Outcome> {
    let mut times = Vec::new();
    for (step, number) in steps.iter().zip(1..) {
        let words: Vec<_> = step.words.iter().map(|word| quoted(word)).collect();
        writeln!(stdout(), "{number}. {}\n\n$ annulus {}", step.title, words.join(" "))?;
        let start = Instant::now();
        let outcome = run(&step.words).with_context(|| format!("step {number}"))?;
        if outcome != Outcome::Done {
            return Ok(outcome);
        }
        times.push(start.elapsed());
        writeln!(stdout(), "{}\n", seconds(start.elapsed()))?;
    }
    let [stock, ours] = ANSWERS.map(|file| fs::read_to_string(Path::new(file)));
    let (stock, ours) =
        (stock.context("cannot read the answer of DataFusion")?, ours.context("cannot read the answer of Annulus")?);
    if stock != ours {
        bail!("the answers of DataFusion and Annulus differ: '{}' and '{}'", ANSWERS[0], ANSWERS[1]);
    }
    let rows = ours.lines().count().saturating_sub(1);
    if let [.., of_stock, of_ours] = times[..] {
        writeln!(
            stdout(),
            "The answers of {rows} rows agree. DataFusion's operators took {}, those of Annulus {}.\n",
            seconds(of_stock),
            seconds(of_ours)
        )?;
    }
    Ok(Outcome::Done)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=,:+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        // Nothing in it is special within double quotes.
        false if !word.contains(['"', '\\', '$', '`']) => format!("\"{word}\""),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, expected) in [
            ("--into", "--into"),
            ("v=by-visitor/", "v=by-visitor/"),
            ("SELECT 'a'", "\"SELECT 'a'\""),
            ("", "\"\""),
            ("$1", "'$1'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
