//! Hosts and their places.

use std::fmt;

/// The largest number of hosts in a ring.
pub const MOST_HOSTS: u16 = 1024;

/// A host's number in its ring, from 0, in the order in which data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u16);

impl HostId {
    /// Returns the number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of a host in its ring.
///
/// ```
/// use annulus_roundabout::{HostId, RingPosition};
///
/// let position = RingPosition::new(2, 3).unwrap();
/// assert_eq!((position.predecessor(), position.successor()), (HostId(1), HostId(0)));
/// assert!(RingPosition::new(3, 3).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPosition {
    me: HostId,
    hosts: u16,
}

impl RingPosition {
    /// The place of the only host of a ring.
    pub(crate) const SINGLE: Self = Self { me: HostId(0), hosts: 1 };

    /// Returns the place of host `me`, counted from 0, of `hosts`. Returns `None` if there is no
    /// such host, or if `hosts` exceeds [`MOST_HOSTS`].
    pub fn new(me: u16, hosts: u16) -> Option<Self> {
        (me < hosts && hosts <= MOST_HOSTS).then_some(Self { me: HostId(me), hosts })
    }

    /// Returns this host.
    pub fn me(self) -> HostId {
        self.me
    }

    /// Returns the number of hosts in the ring.
    pub fn hosts(self) -> u16 {
        self.hosts
    }

    /// Returns the host that this one sends to.
    pub fn successor(self) -> HostId {
        HostId((self.me.0 + 1) % self.hosts)
    }

    /// Returns the host that this one receives from.
    pub fn predecessor(self) -> HostId {
        HostId((self.me.0 + self.hosts - 1) % self.hosts)
    }

    /// Returns whether this is the last host that fragments of `origin` visit.
    pub fn is_last_for(self, origin: HostId) -> bool {
        self.successor() == origin
    }

    /// Returns whether `host` is in the ring.
    pub fn contains(self, host: HostId) -> bool {
        host.0 < self.hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours() {
        let position = RingPosition::new(0, 3).unwrap();
        assert_eq!((position.successor(), position.predecessor()), (HostId(1), HostId(2)));
        assert!(position.is_last_for(HostId(1)) && !position.is_last_for(HostId(2)));
        let alone = RingPosition::new(0, 1).unwrap();
        assert!(alone.is_last_for(HostId(0)));
        assert_eq!(RingPosition::new(3, 3), None);
    }
}
