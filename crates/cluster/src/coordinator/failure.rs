//! Which host failed, when all of them end. Pure.

/// What is known of a host that has ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It said why.
    Said(String),
    /// It said that another one is to blame.
    Blames(usize, String),
    /// Its reports ended, or broke off; or it was stopped there.
    Gone(String),
    /// It was not heard of for too long.
    Silent,
    /// It was told to end, and said so. It has not failed.
    Obeyed,
}

/// The host to blame, and why. Who says what went wrong with itself knows best; who is gone or
/// silent cannot say; and what others say of a host comes last.
pub(super) fn root(seen: &[(usize, Seen)]) -> Option<(usize, String)> {
    let blamed = seen.iter().filter_map(|(host, seen)| {
        Some(match seen {
            Seen::Said(reason) => (0, *host, reason.as_str()),
            Seen::Gone(how) => (1, *host, how.as_str()),
            Seen::Silent => (2, *host, "it has not been heard of for too long"),
            Seen::Blames(other, reason) => (3, *other, reason.as_str()),
            Seen::Obeyed => return None,
        })
    });
    let (_, host, reason) = blamed.min_by_key(|(rank, ..)| *rank)?;
    let (host, reason) = behind(seen, host, reason);
    Some((host, reason.to_owned()))
}

/// Whoever is blamed and blames another one has ended because of that. If they blame each other in
/// turn, it is the first.
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

    /// A host that ends while the ring is put together takes its neighbours along, and these
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
