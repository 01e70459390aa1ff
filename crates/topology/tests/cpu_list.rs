//! CPU lists against a model: a sorted set of numbers and a table of booleans.

use std::collections::BTreeSet;

use annulus_topology::{CpuList, TopologyError};
use proptest::{collection::vec, prelude::*};

#[test]
fn lists_have_ranges() {
    for (text, cpus) in [
        ("0-3,8,10-11", vec![0, 1, 2, 3, 8, 10, 11]),
        ("5", vec![5]),
        (" 0-1\n", vec![0, 1]),
        ("", vec![]),
        ("\n", vec![]),
        ("7,1,0-1", vec![0, 1, 7]),
        ("65535", vec![65535]),
    ] {
        let list: CpuList = text.parse().expect(text);
        assert_eq!(list.iter().collect::<Vec<_>>(), cpus, "{text}");
    }
}

#[test]
fn wrong_lists_are_shown() {
    for text in ["a", "1,", ",1", "1,,2", "3-1", "1-", "-1", "1-2-3", "+1", "1 ,2", "65536", "0-65536", "0x1", "١"] {
        let error = text.parse::<CpuList>().expect_err(text);
        assert_eq!(
            error.to_string(),
            format!("invalid CPU list '{text}': expected numbers below 65536 and ranges, such as 0-3,8")
        );
    }
    let error = "9".repeat(1000).parse::<CpuList>().expect_err("too large");
    assert!(matches!(error, TopologyError::CpuList { text } if text.len() == 60));
}

proptest! {
    #[test]
    fn ranges_are_what_the_model_says(ranges in vec((0..300usize, 0..40usize), 0..12)) {
        let text: Vec<_> = ranges.iter().map(|&(first, more)| match more {
            0 => first.to_string(),
            _ => format!("{first}-{}", first + more),
        }).collect();
        let mut model = [false; 340];
        ranges.iter().for_each(|&(first, more)| model[first..=first + more].fill(true));
        let list: CpuList = text.join(",").parse().expect("a list");
        prop_assert_eq!(list.len(), model.iter().filter(|&&is_in| is_in).count());
        prop_assert!((0..model.len()).all(|cpu| list.contains(cpu) == model[cpu]));
    }

    #[test]
    fn a_list_survives_being_written(cpus in vec(0..200usize, 0..60)) {
        let list: CpuList = cpus.iter().copied().collect();
        prop_assert_eq!(list.to_string().parse::<CpuList>().expect("a list"), list.clone());
        prop_assert!(list.iter().eq(cpus.iter().copied().collect::<BTreeSet<_>>()));
        // As short as possible: neighbours are in one range.
        let ends: Vec<usize> = list.to_string().split([',', '-']).filter_map(|end| end.parse().ok()).collect();
        prop_assert!(list.to_string().split(',').count() <= list.len().max(1));
        prop_assert!(ends.windows(2).all(|ends| ends[0] < ends[1]), "{list}");
    }

    #[test]
    fn any_text_is_a_list_or_an_error(text in any::<String>()) {
        if let Ok(list) = text.parse::<CpuList>() {
            prop_assert_eq!(list.to_string().parse::<CpuList>().expect("a list"), list);
        }
    }

    #[test]
    fn both_and_without(a in vec(0..40usize, 0..30), b in vec(0..40usize, 0..30)) {
        let [left, right] = [&a, &b].map(|cpus| cpus.iter().copied().collect::<CpuList>());
        for cpu in 0..40 {
            let (in_a, in_b) = (a.contains(&cpu), b.contains(&cpu));
            prop_assert_eq!(left.intersection(&right).contains(cpu), in_a && in_b);
            prop_assert_eq!(left.difference(&right).contains(cpu), in_a && !in_b);
        }
    }
}
