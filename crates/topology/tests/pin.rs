//! Pinning, by the affinity that the system then reports.
#![cfg(target_os = "linux")]

use std::thread;

use annulus_topology::{CpuList, Topology, TopologyError, pin_current_thread};

/// Returns the calling thread's CPUs, as the kernel's own file names them.
fn allowed() -> CpuList {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a file");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a line");
    line.parse().expect(line)
}

#[test]
fn a_pinned_thread_is_allowed_its_cpus_alone() {
    let before = allowed();
    for cpu in Topology::detect().usable().iter() {
        let pinned = pin_current_thread([cpu]).expect("a usable CPU");
        assert_eq!(allowed().iter().collect::<Vec<_>>(), [cpu]);
        // Threads that it starts inherit that.
        assert_eq!(thread::scope(|scope| scope.spawn(allowed).join().expect("a thread")).len(), 1);
        assert_eq!(Topology::detect().usable().len(), 1);
        drop(pinned);
        assert_eq!(allowed(), before);
    }
}

#[test]
fn guards_nest() {
    let usable = Topology::detect().usable().clone();
    let (first, last) = (usable.iter().next().expect("a CPU"), usable.iter().last().expect("a CPU"));
    let outer = pin_current_thread([first]).expect("a usable CPU");
    let inner = pin_current_thread([last]).expect("a usable CPU");
    assert_eq!(allowed(), [last].into_iter().collect());
    drop(inner);
    assert_eq!(allowed(), [first].into_iter().collect());
    drop(outer);
    assert_eq!(allowed(), usable);
}

#[test]
fn other_threads_are_not_pinned() {
    let before = allowed();
    let seats = Topology::detect().place(3, 3, Default::default());
    thread::scope(|scope| {
        for seat in seats.producers() {
            scope.spawn(|| {
                let _pinned = pin_current_thread([seat.cpu]).expect("a usable CPU");
                assert_eq!(allowed(), [seat.cpu].into_iter().collect());
            });
        }
    });
    assert_eq!(allowed(), before);
}

#[test]
fn refused_cpus_are_named_and_nothing_changes() {
    let before = allowed();
    let usable = before.iter().next().expect("a CPU");
    let last = Topology::detect().online().and_then(|online| online.iter().last()).expect("Linux reports it");
    // No such CPU: alone, beside one that is allowed, and beyond what the system's mask can hold.
    for (wanted, refused) in [
        (vec![last + 1], (last + 1).to_string()),
        (vec![usable, last + 1], (last + 1).to_string()),
        (vec![usable, 60_000], "60000".to_owned()),
    ] {
        let error = pin_current_thread(wanted).expect_err("no such CPU");
        assert!(error.to_string().contains(&format!("the system refuses {refused}; ")), "{error}");
        assert!(matches!(error, TopologyError::NotAllowed { .. }));
        assert_eq!(allowed(), before);
    }
    let error = pin_current_thread([]).expect_err("no CPU");
    assert_eq!(error.to_string(), "cannot pin a thread to an empty list of CPUs: name at least one");
}
