//! Hosts and their places.

use std::fmt;

/// Most hosts of a ring.
pub const MOST_HOSTS: u16 = 1024;

/// A host's number in its ring, from 0, in the order in which data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

impl HostId {
    /// Its number, to count with.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a host is in its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    me: HostId,
    hosts: u16,
}

impl Place {
    /// Host `me` of `hosts`; `None` if there is no such host, or there are more than [`MOST_HOSTS`].
    pub fn new(me: u16, hosts: u16) -> Option<Self> {
        (me < hosts && hosts <= MOST_HOSTS).then_some(Self { me: HostId(me), hosts })
    }

    /// This host.
    pub fn me(self) -> HostId {
        self.me
    }

    /// Hosts in the ring.
    pub fn hosts(self) -> u16 {
        self.hosts
    }

    /// Where data goes.
    pub fn successor(self) -> HostId {
        HostId((self.me.0 + 1) % self.hosts)
    }

    /// Where data comes from.
    pub fn predecessor(self) -> HostId {
        HostId((self.me.0 + self.hosts - 1) % self.hosts)
    }

    /// Whether fragments of `origin` have been everywhere when they have been here.
    pub fn is_last_for(self, origin: HostId) -> bool {
        self.successor() == origin
    }

    /// Whether the ring has such a host.
    pub fn contains(self, host: HostId) -> bool {
        host.0 < self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        let place = Place::new(0, 3).unwrap();
        assert_eq!((place.successor(), place.predecessor()), (HostId(1), HostId(2)));
        assert!(place.is_last_for(HostId(1)) && !place.is_last_for(HostId(2)));
        let alone = Place::new(0, 1).unwrap();
        assert!(alone.is_last_for(HostId(0)));
        assert_eq!(Place::new(3, 3), None);
    }
}
