//! `annulus help`, `man` and `completions`.

mod support;

use std::{collections::BTreeMap, fs, process::Command};

use annulus_cli::cli::Args;
use clap::CommandFactory;
use support::{Annulus, names};

const COMMANDS: [&str; 11] =
    ["demo", "sql", "partition", "join", "verify", "worker", "topology", "calibrate", "completions", "man", "help"];

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = Annulus::new(["completions", shell]).succeeds().stdout;
        for command in COMMANDS.iter().chain(&["init-ca", "--memory-limit"]) {
            // Fish names options without their dashes.
            let word = if shell == "fish" { command.trim_start_matches('-') } else { command };
            assert!(script.contains(word), "{shell}: {command}");
        }
    }
    let done = Annulus::new(["completions", "tcsh"]).fails();
    assert!(done.stderr.contains("'tcsh'") && done.stderr.contains("bash"), "{}", done.stderr);
}

#[test]
#[cfg(unix)]
fn bash_reads_its_completions_and_completes() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("annulus.bash");
    fs::write(&script, Annulus::new(["completions", "bash"]).succeeds().stdout).expect("write");
    let bash = |arguments: &[&str]| {
        let output = Command::new("bash").args(arguments).arg(&script).output().expect("bash runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    bash(&["-n"]);
    let part = "source \"$0\"; COMP_WORDS=(annulus part); COMP_CWORD=1; \
                _annulus annulus part annulus; echo \"${COMPREPLY[*]}\"";
    assert_eq!(bash(&["-c", part]).trim(), "partition");
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    Annulus::new(["man", "--out", "pages/man1"]).at(folder.path()).succeeds();
    let pages = names(&folder.path().join("pages/man1"));
    for command in COMMANDS.iter().chain(&["worker-add-host"]) {
        assert!(pages.contains(&format!("annulus-{command}.1")), "{command} of {pages:?}");
    }
    assert!(
        pages.contains(&"annulus.1".to_owned())
            && !pages.iter().any(|page| page.contains("-host.1") && !page.contains("add-host")),
        "{pages:?}"
    );
    let page = Annulus::new(["man", "worker", "status"]).succeeds().stdout;
    assert!(page.contains(".TH annulus-worker-status 1") && page.contains("\\-\\-workers"), "{page}");
    assert_eq!(page, fs::read_to_string(folder.path().join("pages/man1/annulus-worker-status.1")).expect("a page"));
    let done = Annulus::new(["man", "nothing"]).fails();
    assert!(done.stderr.contains("no command or topic 'nothing'"), "{}", done.stderr);
    let done = Annulus::new(["man", "--out", "file/man1"]).at(folder.path());
    fs::write(folder.path().join("file"), "").expect("write");
    assert!(done.fails().stderr.contains("cannot write manual pages to 'file/man1'"));
}

#[test]
fn help_knows_commands_and_topics() {
    let help = Annulus::new(["help"]).succeeds().stdout;
    assert!(COMMANDS.iter().all(|command| help.contains(command)), "{help}");
    let all = help;
    let help = Annulus::new(["help", "worker", "status"]).succeeds().stdout;
    assert!(help.contains("Usage: annulus worker status") && help.contains("--workers"), "{help}");
    let topics = Annulus::new(["help", "help"]).succeeds().stdout;
    for (topic, heading) in [
        ("csv", "# How do I read a CSV file?"),
        ("inputs", "# Inputs"),
        ("joins", "# Joining datasets"),
        ("json", "# JSON output"),
        ("partitioning", "# Splitting a dataset by key"),
        ("queries", "# SQL"),
        ("topology", "# The topology of the machine"),
        ("workers", "# Queries on workers"),
    ] {
        assert!(topics.contains(&format!("  {topic} ")), "{topics}");
        let topics = all.split("Topics of annulus help: ").nth(1).expect("topics");
        assert!(topics.contains(topic), "{topics}");
        let page = Annulus::new(["help", topic]).succeeds().stdout;
        assert!(page.starts_with(heading) && !page.contains("<!--"), "{page}");
    }
    let done = Annulus::new(["help", "worker", "nothing"]).fails();
    assert!(done.stderr.contains("'worker nothing'") && done.stderr.contains("annulus help help"), "{}", done.stderr);
}

/// The largest number of options of all commands together, without `--help` and `--version`. A new option
/// takes the place of another one, or is a key of `--set` or `--read`.
const MOST_OPTIONS: usize = 120;

#[test]
fn options_are_few_and_each_is_explained() {
    let mut table = BTreeMap::<String, Vec<String>>::new();
    collect_options(&Args::command(), &mut table);
    let count: usize = table.values().map(Vec::len).sum();
    let rows: Vec<_> = table.iter().map(|(option, commands)| format!("--{option}: {}", commands.join(", "))).collect();
    println!("{}\n{} options, {count} with their repetitions", rows.join("\n"), table.len());
    assert!(count <= MOST_OPTIONS, "{count} options, and {MOST_OPTIONS} are the most:\n{}", rows.join("\n"));
}

/// Adds the visible options of `command` and of the commands below it, with the names of their commands.
fn collect_options(command: &clap::Command, table: &mut BTreeMap<String, Vec<String>>) {
    let visible = |argument: &&clap::Arg| !argument.is_hide_set() && argument.get_long() != Some("fabric");
    for argument in command.get_arguments().filter(visible) {
        let Some(option) = argument.get_long() else { continue };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.split_whitespace().count() > 2, "--{option} of {}: '{help}' explains nothing", command.get_name());
        table.entry(option.to_owned()).or_default().push(command.get_name().to_owned());
    }
    command.get_subcommands().for_each(|command| collect_options(command, table));
}
