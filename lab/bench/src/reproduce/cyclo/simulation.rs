//! A ring over links of a limited rate, simulated from event to event.
//!
//! Hosts follow the protocol itself, [`Rotation`] and [`Credits`]. Only what is around them is
//! modelled: links that move a fragment in a given time, and hosts that join one in a given time.
//! `lab/docs/papers.md` explains it.

use std::collections::VecDeque;

use annulus_roundabout::{
    Frame, RingConfig, RingPosition,
    testing::{Action, Credits, Event, Rotation, Slot},
};

/// Less than this part of a fragment is rounding.
const ROUNDING: f64 = 1e-9;
/// The number of revolutions with different beginnings that are averaged.
const BEGINNINGS: u32 = 16;
/// Steps of this size spread evenly over 0 to 1, whatever their number (the golden ratio).
const SPREAD: f64 = 0.618_033_988_749_895;

/// A ring, and the times of its parts by themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulation {
    /// The number of hosts, at least two.
    pub(super) hosts: u16,
    /// The number of fragments that each host injects.
    pub(super) fragments: u32,
    /// Seconds in which a host joins a fragment.
    pub(super) join_s: f64,
    /// Seconds in which a link moves a fragment.
    pub(super) link_s: f64,
    pub(super) config: RingConfig,
}

/// The times of a revolution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SimulatedTimes {
    /// Seconds until the slowest host has finished.
    pub(super) revolution_s: f64,
    /// The share of its revolution for which a host has no fragment to join, averaged over hosts.
    pub(super) waiting_share: f64,
}

struct Ring<'a> {
    of: &'a Simulation,
    now: f64,
    hosts: Vec<Host>,
}

struct Host {
    rotation: Rotation,
    /// The number of own fragments that are not filled yet.
    to_fill: u32,
    to_join: VecDeque<Slot>,
    /// The part of the first one that is not joined yet.
    unjoined: f64,
    /// The free places for received fragments, and the credits owed for them.
    free: Vec<Slot>,
    credits: Credits,
    /// What is on the link to the next host, in order.
    sending: VecDeque<(Slot, Frame)>,
    /// The part of the first fragment on the link that has not arrived yet.
    unsent: f64,
    waited: f64,
    /// When this host had joined and sent everything.
    finished: Option<f64>,
}

impl Simulation {
    /// Simulates revolutions in which hosts begin a random part of a fragment apart, and returns
    /// the averages. The same ring has the same result. O(hosts^3 x fragments).
    pub(super) fn average(&self) -> SimulatedTimes {
        let mut average = SimulatedTimes::default();
        for beginning in 0..BEGINNINGS {
            let apart = |host| (f64::from(beginning * u32::from(self.hosts) + u32::from(host)) * SPREAD).fract();
            let one = self.run(apart);
            average.revolution_s += one.revolution_s / f64::from(BEGINNINGS);
            average.waiting_share += one.waiting_share / f64::from(BEGINNINGS);
        }
        average
    }

    /// Simulates one revolution. The links of hosts begin `apart` later, in times for a fragment.
    ///
    /// # Panics
    /// If the ring stops, which its protocol rules out.
    fn run(&self, apart: impl Fn(u16) -> f64) -> SimulatedTimes {
        let hosts = (0..self.hosts).map(|me| self.host(me, apart(me))).collect();
        let mut ring = Ring { of: self, now: 0.0, hosts };
        for me in 0..ring.hosts.len() {
            ring.handle(me, Event::Credited(self.config.places));
        }
        while ring.hosts.iter().any(|host| host.finished.is_none()) {
            ring.step();
        }
        let share = |host: &Host| host.waited / host.finished.unwrap_or(ring.now);
        let waiting_share = ring.hosts.iter().map(share).sum::<f64>() / f64::from(self.hosts);
        SimulatedTimes { revolution_s: ring.now, waiting_share }
    }

    fn host(&self, me: u16, apart: f64) -> Host {
        let RingConfig { own, places, .. } = self.config;
        Host {
            rotation: Rotation::new(RingPosition::new(me, self.hosts).expect("a place in the ring"), own),
            to_fill: self.fragments,
            to_join: VecDeque::new(),
            unjoined: 1.0,
            free: (own..own + places).collect(),
            credits: Credits::new(places),
            sending: VecDeque::new(),
            unsent: 1.0 + apart,
            waited: 0.0,
            finished: None,
        }
    }
}

impl Ring<'_> {
    /// Goes on to the next event: a fragment is joined, or arrives at the next host.
    fn step(&mut self) {
        let Simulation { join_s, link_s, .. } = *self.of;
        let joins = self.hosts.iter().filter(|host| !host.to_join.is_empty()).map(|host| host.unjoined * join_s);
        let moves = self.hosts.iter().filter(|host| !host.sending.is_empty()).map(|host| host.unsent * link_s);
        let time = joins.chain(moves).fold(f64::INFINITY, f64::min);
        assert!(time.is_finite(), "the ring stops");
        self.now += time;
        for host in &mut self.hosts {
            if !host.to_join.is_empty() {
                host.unjoined -= time / join_s;
            } else if host.finished.is_none() {
                host.waited += time;
            }
            if !host.sending.is_empty() {
                host.unsent -= time / link_s;
            }
        }
        for me in 0..self.hosts.len() {
            if self.hosts[me].unjoined < ROUNDING {
                self.joined(me);
            }
        }
        for me in 0..self.hosts.len() {
            if self.hosts[me].unsent < ROUNDING {
                self.arrives(me);
            }
        }
        for host in self.hosts.iter_mut().filter(|host| host.rotation.is_finished()) {
            host.finished.get_or_insert(self.now);
        }
    }

    /// Ends the join of host `me`'s first fragment.
    fn joined(&mut self, me: usize) {
        let host = &mut self.hosts[me];
        host.unjoined = 1.0;
        if let Some(slot) = host.to_join.pop_front() {
            self.handle(me, Event::Joined(slot));
        }
    }

    /// Hands the first fragment on host `me`'s link to the next host.
    fn arrives(&mut self, me: usize) {
        let next = (me + 1) % self.hosts.len();
        self.hosts[me].unsent = 1.0;
        let Some((slot, frame)) = self.hosts[me].sending.pop_front() else { return };
        let host = &mut self.hosts[next];
        let received = host.free.pop().expect("a credit is a place");
        let due = host.credits.due(host.free.len() as u32);
        self.handle(me, Event::Credited(due));
        self.handle(next, Event::Received(received, frame));
        self.handle(me, Event::Sent(slot));
        if slot < self.of.config.own {
            self.handle(me, Event::Returned(slot));
        } else {
            self.free(me, slot);
        }
    }

    /// Frees a place of host `me`.
    fn free(&mut self, me: usize, slot: Slot) {
        let host = &mut self.hosts[me];
        host.free.push(slot);
        let due = host.credits.give(host.free.len() as u32);
        self.handle((me + self.hosts.len() - 1) % self.hosts.len(), Event::Credited(due));
    }

    /// Applies an event at host `me`, and performs the actions that take no time.
    fn handle(&mut self, me: usize, event: Event) {
        self.hosts[me].rotation.handle(event).expect("hosts follow the protocol");
        while let Some(action) = self.hosts[me].rotation.next_action() {
            let host = &mut self.hosts[me];
            match action {
                Action::Fill(slot) if host.to_fill > 0 => {
                    host.to_fill -= 1;
                    self.handle(me, Event::Filled(slot));
                }
                Action::Fill(slot) => self.handle(me, Event::Drained(slot)),
                Action::Join(slot, _) => host.to_join.push_back(slot),
                Action::Send(slot, frame) => host.sending.push_back((slot, frame)),
                Action::Retire(slot, _) => self.free(me, slot),
                Action::Announce(announcement) => {
                    self.handle((me + 1) % self.hosts.len(), Event::Announced(announcement));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(hosts: u16, fragments: u32, join_s: f64, link_s: f64) -> Simulation {
        Simulation { hosts, fragments, join_s, link_s, config: RingConfig::default() }
    }

    fn together(ring: &Simulation) -> SimulatedTimes {
        ring.run(|_| 0.0)
    }

    fn near(value: f64, expected: f64) -> bool {
        (value - expected).abs() < 1e-6
    }

    #[test]
    fn one_fragment_each_crosses_and_is_joined() {
        // Join the own one, wait while the other crosses, join it.
        let of = together(&ring(2, 1, 1.0, 3.0));
        assert!(near(of.revolution_s, 5.0) && near(of.waiting_share, 3.0 / 5.0), "{of:?}");
    }

    #[test]
    fn a_slow_link_makes_hosts_wait_for_the_rest_of_its_time() {
        // 100 fragments cross each link, the first after its join, and the last is joined.
        let of = together(&ring(2, 100, 1.0, 4.0));
        assert!(near(of.revolution_s, 1.0 + 400.0 + 1.0), "{of:?}");
        assert!(near(of.waiting_share, 1.0 - 200.0 / 402.0), "{of:?}");
        // The same in larger rings.
        let of = ring(6, 200, 1.0, 2.0).average();
        assert!((of.waiting_share - (1.0 - 1200.0 / 2000.0)).abs() < 0.01, "{of:?}");
    }

    #[test]
    fn slow_joins_hide_the_transfers() {
        let of = together(&ring(3, 100, 1.0, 0.1));
        assert!(near(of.revolution_s, 300.0) && near(of.waiting_share, 0.0), "{of:?}");
    }

    #[test]
    fn the_papers_ring_waits_as_in_the_paper() {
        // Six hosts, 6.4 s of joins, and 9.6 GB over each link in 8.7 s.
        let of = ring(6, 200, 6.4 / 1200.0, 8.7 / 1000.0).average();
        assert!((of.revolution_s - 8.7).abs() < 0.1, "{of:?}");
        assert!((of.waiting_share - 2.3 / 8.7).abs() < 0.01, "{of:?}");
    }

    #[test]
    fn few_buffers_make_no_ring_stop() {
        for (hosts, places) in [(2, 2), (3, 2), (5, 2), (6, 3)] {
            let config = RingConfig::default().with_own(1).with_places(places);
            let of = Simulation { config, ..ring(hosts, 20, 1.0, 1.0) }.average();
            assert!((0.0..1.0).contains(&of.waiting_share), "{of:?}");
        }
    }
}
