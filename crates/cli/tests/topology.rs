//! `annulus topology`.

mod support;

use serde_json::Value;
use support::Annulus;

/// Returns the JSON object that the command prints with these options.
fn json(options: &str) -> Value {
    let words = ["topology", "--json"].into_iter().chain(options.split_whitespace());
    serde_json::from_str(&Annulus::new(words).succeeds().stdout).expect("JSON")
}

#[test]
fn the_machine_is_shown() {
    let text = Annulus::new(["topology"]).succeeds().stdout;
    let object = json("");
    let count = object["usable_cpus"].as_array().expect("CPUs").len();
    assert!(text.starts_with(&format!(" CPUs        {count} usable")), "{text}");
    let suggested = &object["suggested"];
    assert!(text.contains(&format!("K = {}: ", suggested["groups"])), "{text}");
    assert!(text.contains(" domain  CPUs"), "{text}");
    assert!(!text.contains("Plan") && object.get("plan").is_none(), "{text}");
    assert_eq!(suggested["producers"], suggested["consumers"]);
}

#[test]
fn a_plan_places_every_thread() {
    let object = json("--plan 3x5");
    let plan = &object["plan"];
    for (threads, count) in [("producers", 3), ("consumers", 5)] {
        let seats = plan[threads].as_array().expect("seats");
        assert_eq!(seats.len(), count);
        for seat in seats {
            let domain = &object["domains"][seat["domain"].as_u64().expect("an index") as usize];
            assert!(domain["cpus"].as_array().expect("CPUs").contains(&seat["cpu"]), "{object}");
        }
    }
    assert_eq!(json("--plan 3x5 --spread")["plan"]["policy"], "spread");
    let text = Annulus::new(["topology", "--plan", "3x5"]).succeeds().stdout;
    let plan = text.split("Plan 3x5, compact: ").nth(1).expect(&text);
    assert_eq!(plan.lines().count(), 2 + 5, "{text}");
}

#[test]
fn large_batches_need_one_group() {
    let object = json("--plan 2x2 --batch-bytes 1M");
    assert_eq!((&object["plan"]["groups"], &object["suggested"]["groups"]), (&1.into(), &1.into()));
}

#[test]
fn mistakes_are_explained() {
    for (plan, error) in [
        ("4", "invalid shape '4': expected MxN, such as 4x4 or 16x256"),
        ("", "invalid shape '': expected MxN"),
        ("4x", "invalid count '': expected 1 to 65536"),
        ("0x4", "invalid count '0': expected 1 to 65536"),
        ("4x-1", "invalid count '-1': expected 1 to 65536"),
        ("4x70000", "invalid count '70000': expected 1 to 65536"),
        ("4x4x4", "invalid count '4x4': expected 1 to 65536"),
    ] {
        let done = Annulus::new(["topology", &format!("--plan={plan}")]).fails();
        assert!(done.stderr.contains(error) && done.stdout.is_empty(), "{plan}: {}", done.stderr);
    }
    let done = Annulus::new(["topology", "--spread"]).fails();
    assert!(done.stderr.contains("--plan <MxN>"), "{}", done.stderr);
    let done = Annulus::new(["topology", "--batch-bytes", "big"]).fails();
    assert!(done.stderr.contains("invalid size 'big'"), "{}", done.stderr);
}

#[test]
#[cfg(target_os = "linux")]
fn an_affinity_mask_limits_it() {
    let object = json("");
    let usable: Vec<_> = object["usable_cpus"].as_array().expect("CPUs").iter().filter_map(Value::as_u64).collect();
    let last = *usable.last().expect("a CPU") as usize;
    // The command inherits the mask of the thread that starts it.
    let _pinned = annulus_topology::pin_current_thread([last]).expect("a usable CPU");
    let pinned = json("");
    assert_eq!((&pinned["usable_cpus"], &pinned["affinity_cpus"]), (&vec![last].into(), &vec![last].into()));
    assert_eq!(pinned["online_cpus"], object["online_cpus"]);
    let text = Annulus::new(["topology"]).succeeds().stdout;
    let limit = format!("affinity mask: CPUs {last}");
    assert_eq!(
        text.contains(&limit),
        object["online_cpus"].as_array().is_some_and(|online| online.len() > 1),
        "{text}"
    );
}
