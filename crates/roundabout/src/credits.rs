//! When a host sends credits to its predecessor.

/// The credits owed to the predecessor. Sending them costs both hosts two thread switches. So they
/// are kept back while the predecessor has more than half of all credits, and more than one.
#[derive(Clone, Debug)]
pub struct Credits {
    enough: u32,
    owed: u32,
}

impl Credits {
    /// Starts with `places` free places, all of them known to the predecessor.
    pub fn new(places: u32) -> Self {
        Self { enough: (places / 2).max(1), owed: 0 }
    }

    /// Records a freed place; `free` counts the free places, including this one. Returns the
    /// credits to send now.
    #[must_use]
    pub fn give(&mut self, free: u32) -> u32 {
        self.owed += 1;
        self.due(free)
    }

    /// Returns the credits to send now that `free` places are left. To be called when a frame took
    /// a place as well: while frames are on their way, their places count as free, and credits are
    /// kept back that the predecessor lacks when they arrive. Without them the ring could stop.
    #[must_use]
    pub fn due(&mut self, free: u32) -> u32 {
        if free > self.owed + self.enough { 0 } else { std::mem::take(&mut self.owed) }
    }
}
