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

/// The host to blame, and why. Who says what went wrong with itself knows best; who is gone or silent cannot say; and what others
/// say of a host comes last.
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
    Some((host, reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_best_is_believed() {
        let blames = (0, Seen::Blames(1, "host 1 has failed: it has given up".into()));
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
}
