//! The processes of this machine, as Linux lists them.

use std::{collections::HashSet, fs};

/// Returns the processes that a process has started, the oldest first.
pub fn children(process: u32) -> Vec<u32> {
    let mut children: Vec<_> = processes().filter(|&pid| parent(pid) == Some(process)).collect();
    children.sort_by_key(|&pid| (started(pid), pid));
    children
}

pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("a list of processes");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the fields of /proc/PID/stat after the process's name: the first one is its state, field
/// 3.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

pub fn state(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Returns the processor time of a process in user mode, in hundredths of a second.
pub fn ticks(pid: u32) -> Option<u64> {
    stat(pid)?.get(11)?.parse().ok()
}

/// Returns the TCP ports at which a process listens.
pub fn listening(pid: u32) -> Vec<u16> {
    let port = |fields: &[String]| u16::from_str_radix(fields[1].rsplit_once(':')?.1, 16).ok();
    sockets(pid, "0A").iter().filter_map(|fields| port(fields)).collect()
}

/// Returns the bytes that each TCP connection of a process holds for it to read.
pub fn connections(pid: u32) -> Vec<u64> {
    let unread = |fields: &[String]| u64::from_str_radix(fields[4].rsplit_once(':')?.1, 16).ok();
    sockets(pid, "01").iter().filter_map(|fields| unread(fields)).collect()
}

/// Returns the lines of /proc/PID/net/tcp about the sockets of a process in this state: the address is field
/// 1, the state field 3, the bytes to send and to read field 4, and the socket field 9.
fn sockets(pid: u32, state: &str) -> Vec<Vec<String>> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let own: HashSet<String> = links
        .filter_map(|link| {
            let target = fs::read_link(link.path()).ok()?.into_os_string().into_string().ok()?;
            Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().map(str::to_owned).collect());
    lines.filter(|fields: &Vec<String>| fields.len() > 9 && fields[3] == state && own.contains(&fields[9])).collect()
}

fn started(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}
