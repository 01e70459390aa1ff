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
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets: HashSet<String> = links
        .filter_map(|link| {
            let target = fs::read_link(link.path()).ok()?.into_os_string().into_string().ok()?;
            Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The address, the state (0A: it listens), and the socket.
        let is_own = *fields.get(3)? == "0A" && sockets.contains(*fields.get(9)?);
        u16::from_str_radix(fields[1].rsplit_once(':')?.1, 16).ok().filter(|_| is_own)
    };
    table.lines().skip(1).filter_map(port).collect()
}

fn started(pid: u32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}
