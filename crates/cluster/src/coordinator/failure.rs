//! Finds the host that failed first, after all hosts have ended. Pure.

/// What is known of a host that ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It reported the reason.
    Said(String),
    /// It reported that another host caused the failure.
    Blames(usize, String),
    /// Its reports ended or broke off, or its process was stopped.
    Gone(String),
    /// It sent nothing for the timeout.
    Silent,
    /// It confirmed an order to end. It has not failed.
    Obeyed,
}

/// Returns the host that failed, and the reason. A host's own report takes precedence over a host
/// that is gone or silent, and that over other hosts' reports.
pub(super) fn root(seen: &[(usize, Seen)]) -> Option<(usize, String)> {
    let blamed = seen.iter().filter_map(|(host, seen)| {
        Some(match seen {
            Seen::Said(reason) => (0, *host, reason.as_str()),
            Seen::Gone(how) => (1, *host, how.as_str()),
            Seen::Silent => (2, *host, "it sent nothing for its `timeout`"),
            Seen::Blames(other, reason) => (3, *other, reason.as_str()),
            Seen::Obeyed => return None,
        })
    });
    let (_, host, reason) = blamed.min_by_key(|(rank, ..)| *rank)?;
    let (host, reason) = behind(seen, host, reason);
    Some((host, reason.to_owned()))
}

/// Follows the reports of blame. A host that is blamed and itself blames another one ended because
/// of that one. If hosts blame each other in a circle, the first one is returned.
fn behind<'a>(seen: &'a [(usize, Seen)], first: usize, reason: &'a str) -> (usize, &'a str) {
    let mut last = (first, reason);
    for _ in seen {
        let blames = |(host, seen): &'a (usize, Seen)| match seen {
            Seen::Blames(other, reason) if *host == last.0 && other != host => Some((*other, reason.as_str())),
            _ => None,
        };
        match seen.iter().find_map(blames) {
            Some(next) => last = next,
            None => return last,
        }
    }
    (first, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_best_is_believed() {
        let blames = (0, Seen::Blames(1, "host 1 has failed: it gave up".into()));
        let said = (1, Seen::Said("no space".into()));
        assert_eq!(root(&[blames.clone(), said]), Some((1, "no space".into())));
        let gone = root(&[blames.clone(), (2, Seen::Gone("broke off".into()))]).unwrap();
        assert_eq!(gone.0, 2);
        assert_eq!(root(&[blames]).unwrap().0, 1);
        assert_eq!(root(&[(0, Seen::Obeyed), (2, Seen::Gone(String::new()))]).unwrap().0, 2);
        assert_eq!(root(&[(0, Seen::Obeyed), (1, Seen::Silent)]).unwrap().0, 1);
        assert_eq!(root(&[(0, Seen::Obeyed)]), None);
        assert_eq!(root(&[]), None);
    }

    /// A host that ends while the ring is being connected makes its neighbours fail, and these
    /// theirs.
    #[test]
    fn who_is_behind_the_others_is_blamed() {
        let blames = |host, other| (host, Seen::Blames(other, format!("{host} lost {other}")));
        let root = |seen: &[_]| root(seen).unwrap();
        assert_eq!(root(&[blames(1, 2), (0, Seen::Obeyed), blames(2, 0)]), (0, "2 lost 0".into()));
        assert_eq!(root(&[blames(1, 2), blames(2, 2)]), (2, "1 lost 2".into()));
        assert_eq!(root(&[blames(3, 1), blames(1, 2), blames(2, 1)]), (1, "3 lost 1".into()));
        assert_eq!(root(&[blames(1, 2), blames(2, 0), (0, Seen::Silent)]).0, 0);
    }
}
