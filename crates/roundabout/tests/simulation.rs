//! Simulations of whole rings: one thread, a clock that jumps, and delays that depend on a seed.
//! Each link keeps the order of its frames, of its announcements and of its credits, but these
//! overtake each other. `ANNULUS_SIMULATIONS` sets the number of seeds.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
};

use annulus_roundabout::{
    Failure, Frame, HostId, Reason, RingPosition,
    testing::{Action, Alarm, Announcement, Credits, Event, Rotation, Slot},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// An arrival at a host.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Event(Event),
    /// A frame on the wire, before it has a buffer. If it is handed over, it carries the place of
    /// its memory.
    Frame(Frame, Home),
    Fill(Slot),
    Failure(Failure),
    Crash,
}

/// The host and own buffer whose memory holds a fragment.
type Home = (HostId, Slot);

/// The way a link moves memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Memory {
    /// A frame is copied to a buffer of the successor's.
    Copied,
    /// The successor works in the origin's buffer.
    Handed,
}

struct Host {
    rotation: Rotation,
    alarm: Alarm,
    fragments: Vec<u32>,
    next_fragment: u32,
    revolution: usize,
    free: Vec<Slot>,
    credits: Credits,
    homes: BTreeMap<Slot, Home>,
    joins: VecDeque<(Slot, Frame)>,
    is_joining: bool,
    joined: BTreeSet<(u32, HostId, u32)>,
    slowness: u64,
    alive: bool,
    done: bool,
}

struct Simulation {
    random: StdRng,
    now: u64,
    number: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    arrivals: BTreeMap<u64, (usize, Arrival)>,
    /// The time of the last arrival on each direction of each link: nothing overtakes on a direction.
    lanes: BTreeMap<(usize, usize, &'static str), u64>,
    hosts: Vec<Host>,
    places: u32,
    own: u32,
    memory: Memory,
    revolutions: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(1..=7u16);
        let places = random.random_range(2..=7u32);
        let own = random.random_range(1..=3u32);
        let revolutions = random.random_range(1..=3usize);
        let memory = if random.random() { Memory::Copied } else { Memory::Handed };
        let hosts = (0..count)
            .map(|me| Host {
                rotation: Rotation::new(RingPosition::new(me, count).unwrap(), own),
                alarm: Alarm::default(),
                fragments: (0..revolutions).map(|_| random.random_range(0..12)).collect(),
                next_fragment: 0,
                revolution: 0,
                free: (own..own + places).collect(),
                credits: Credits::new(places),
                homes: BTreeMap::new(),
                joins: VecDeque::new(),
                is_joining: false,
                joined: BTreeSet::new(),
                slowness: random.random_range(1..200),
                alive: true,
                done: false,
            })
            .collect();
        let (queue, arrivals, lanes) = (BinaryHeap::new(), BTreeMap::new(), BTreeMap::new());
        let mut simulation =
            Self { random, now: 0, number: 0, queue, arrivals, lanes, hosts, places, own, memory, revolutions };
        for host in 0..usize::from(count) {
            if count > 1 {
                simulation.deliver(host, host, "start", Arrival::Event(Event::Credited(places)));
            }
            simulation.act(host);
        }
        simulation
    }

    /// Schedules an arrival; a direction keeps its order.
    fn deliver(&mut self, from: usize, to: usize, direction: &'static str, arrival: Arrival) {
        let slowness = self.hosts[from].slowness;
        let delay = if self.random.random_ratio(1, 8) { 50 * slowness } else { slowness };
        let soonest = self.now + self.random.random_range(0..=delay);
        let last = self.lanes.entry((from, to, direction)).or_default();
        *last = soonest.max(*last);
        self.number += 1;
        self.queue.push(Reverse((*last, self.number)));
        self.arrivals.insert(self.number, (to, arrival));
    }

    fn successor(&self, host: usize) -> usize {
        (host + 1) % self.hosts.len()
    }

    fn predecessor(&self, host: usize) -> usize {
        (host + self.hosts.len() - 1) % self.hosts.len()
    }

    /// Runs until no events are left.
    fn run(&mut self) {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            self.now = time;
            let (host, arrival) = self.arrivals.remove(&number).unwrap();
            let stopped = !self.hosts[host].alive || self.hosts[host].alarm.failure().is_some();
            if stopped && !matches!(arrival, Arrival::Crash) {
                continue;
            }
            match arrival {
                Arrival::Event(event) => self.event(host, event),
                Arrival::Frame(frame, home) => self.frame(host, frame, home),
                Arrival::Fill(slot) => self.fill(host, slot),
                Arrival::Failure(failure) => self.fail(host, failure),
                Arrival::Crash => self.crash(host),
            }
            self.act(host);
        }
    }

    fn event(&mut self, host: usize, event: Event) {
        if let Event::Joined(_) = event {
            self.hosts[host].is_joining = false;
        }
        if let Event::Sent(slot) = event {
            self.after_sending(host, slot);
        }
        self.hosts[host].rotation.handle(event).unwrap();
    }

    fn frame(&mut self, host: usize, frame: Frame, home: Home) {
        let slot = self.hosts[host].free.pop().expect("a credit is a promise of room");
        self.hosts[host].homes.insert(slot, home);
        let state = &mut self.hosts[host];
        let frames = state.credits.due(state.free.len() as u32);
        self.credit(host, frames);
        self.hosts[host].rotation.handle(Event::Received(slot, frame)).unwrap();
    }

    fn fill(&mut self, host: usize, slot: Slot) {
        let state = &mut self.hosts[host];
        let event = if state.next_fragment < state.fragments[state.revolution] {
            state.next_fragment += 1;
            Event::Filled(slot)
        } else {
            Event::Drained(slot)
        };
        state.rotation.handle(event).unwrap();
    }

    /// Frees the buffer of a frame that was sent on, unless it was handed over.
    fn after_sending(&mut self, host: usize, slot: Slot) {
        if slot >= self.own {
            self.give_place(host, slot);
        } else if self.memory == Memory::Copied {
            self.deliver(host, host, "return", Arrival::Event(Event::Returned(slot)));
        }
    }

    fn give_place(&mut self, host: usize, slot: Slot) {
        let state = &mut self.hosts[host];
        state.free.push(slot);
        state.homes.remove(&slot);
        assert!(state.free.len() <= self.places as usize);
        let frames = state.credits.give(state.free.len() as u32);
        self.credit(host, frames);
    }

    fn credit(&mut self, host: usize, frames: u32) {
        let predecessor = self.predecessor(host);
        if frames > 0 {
            self.deliver(host, predecessor, "credit", Arrival::Event(Event::Credited(frames)));
        }
    }

    fn act(&mut self, host: usize) {
        loop {
            while let Some(action) = self.hosts[host].rotation.next_action() {
                self.act_on(host, action);
            }
            let state = &mut self.hosts[host];
            if !state.is_joining
                && let Some((slot, frame)) = state.joins.pop_front()
            {
                state.is_joining = true;
                assert!(
                    state.joined.insert((frame.revolution, frame.origin, frame.sequence)),
                    "{frame:?} joined twice"
                );
                self.deliver(host, host, "join", Arrival::Event(Event::Joined(slot)));
            }
            let state = &mut self.hosts[host];
            if !state.rotation.is_finished() || state.done {
                return;
            }
            if state.revolution + 1 == self.revolutions {
                state.done = true;
                return;
            }
            state.revolution += 1;
            state.next_fragment = 0;
            state.rotation.next_revolution().unwrap();
        }
    }

    fn act_on(&mut self, host: usize, action: Action) {
        let successor = self.successor(host);
        match action {
            Action::Fill(slot) => self.deliver(host, host, "fill", Arrival::Fill(slot)),
            Action::Join(slot, frame) => self.hosts[host].joins.push_back((slot, frame)),
            Action::Send(slot, frame) => {
                let home = self.hosts[host].homes.get(&slot).copied().unwrap_or((HostId(host as u16), slot));
                self.deliver(host, successor, "frame", Arrival::Frame(frame, home));
                self.deliver(host, host, "sent", Arrival::Event(Event::Sent(slot)));
            }
            Action::Retire(slot, frame) => {
                if slot < self.own {
                    assert_eq!(self.hosts.len(), 1);
                    return self.deliver(host, host, "return", Arrival::Event(Event::Returned(slot)));
                }
                let (home, own) = self.hosts[host].homes[&slot];
                assert_eq!(home, frame.origin);
                if self.memory == Memory::Handed {
                    self.deliver(host, usize::from(home.0), "home", Arrival::Event(Event::Returned(own)));
                }
                self.give_place(host, slot);
            }
            Action::Announce(announcement) => {
                self.deliver(host, successor, "announce", Arrival::Event(Event::Announced(announcement)));
            }
        }
    }

    fn crash(&mut self, host: usize) {
        if !self.hosts[host].alive {
            return;
        }
        self.hosts[host].alive = false;
        let reason = if self.random.random() { Reason::Closed } else { Reason::Silent };
        let failure = Failure { host: HostId(host as u16), reason };
        for neighbour in [self.successor(host), self.predecessor(host)] {
            // Neighbours watch each other. Messages that the dead host sent earlier may still
            // arrive.
            self.deliver(neighbour, neighbour, "watch", Arrival::Failure(failure));
        }
    }

    fn fail(&mut self, host: usize, failure: Failure) {
        if !self.hosts[host].alarm.raise(failure) {
            return;
        }
        for neighbour in [self.successor(host), self.predecessor(host)] {
            self.deliver(host, neighbour, "alarm", Arrival::Failure(failure));
        }
    }

    fn expected(&self) -> BTreeSet<(u32, HostId, u32)> {
        let mut all = BTreeSet::new();
        for (id, host) in self.hosts.iter().enumerate() {
            for (revolution, &fragments) in host.fragments.iter().enumerate() {
                all.extend((0..fragments).map(|sequence| (revolution as u32, HostId(id as u16), sequence)));
            }
        }
        all
    }
}

fn seeds() -> u64 {
    std::env::var("ANNULUS_SIMULATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

#[test]
fn every_host_joins_every_fragment_once() {
    for seed in 0..seeds() {
        let mut simulation = Simulation::new(seed);
        simulation.run();
        let expected = simulation.expected();
        for (id, host) in simulation.hosts.iter().enumerate() {
            assert!(host.done, "seed {seed}: host {id} hangs: {:?}", host.rotation);
            assert_eq!(host.joined, expected, "seed {seed}: host {id}");
            assert_eq!(host.free.len(), simulation.places as usize, "seed {seed}: host {id} keeps a buffer");
        }
    }
}

#[test]
fn every_host_learns_of_a_crash_or_finishes() {
    for seed in 0..seeds() {
        let mut simulation = Simulation::new(seed);
        let hosts = simulation.hosts.len();
        let crashed: BTreeSet<usize> =
            (0..simulation.random.random_range(1..=2)).map(|_| simulation.random.random_range(0..hosts)).collect();
        for &host in &crashed {
            let time = simulation.random.random_range(0..5000);
            simulation.number += 1;
            simulation.queue.push(Reverse((time, simulation.number)));
            simulation.arrivals.insert(simulation.number, (host, Arrival::Crash));
        }
        simulation.run();
        let expected = simulation.expected();
        for (id, host) in simulation.hosts.iter().enumerate().filter(|(_, host)| host.alive) {
            match host.alarm.failure() {
                Some(failure) => assert!(crashed.contains(&failure.host.index()), "seed {seed}: {failure}"),
                None => assert!(host.done, "seed {seed}: host {id} hangs"),
            }
            if host.done {
                assert_eq!(host.joined, expected, "seed {seed}: host {id}");
            }
        }
    }
}

/// Impossible messages of a neighbour are detected, and nothing panics.
#[test]
fn what_cannot_be_is_refused() {
    let position = RingPosition::new(0, 3).unwrap();
    let frame = |revolution, origin, sequence| Frame { revolution, origin: HostId(origin), sequence };
    let announcement = |origin, fragments| Announcement { revolution: 0, origin: HostId(origin), fragments };
    let refused = [
        vec![Event::Received(2, frame(0, 0, 0))],
        vec![Event::Received(2, frame(0, 3, 0))],
        vec![Event::Received(2, frame(2, 1, 0))],
        vec![Event::Received(2, frame(0, 1, 1))],
        vec![Event::Received(2, frame(0, 1, 0)), Event::Received(3, frame(0, 1, 0))],
        vec![Event::Announced(announcement(1, 0)), Event::Received(2, frame(0, 1, 0))],
        vec![Event::Received(2, frame(0, 1, 0)), Event::Announced(announcement(1, 0))],
        vec![Event::Announced(announcement(0, 1))],
        vec![Event::Announced(announcement(1, 1)), Event::Announced(announcement(1, 1))],
        vec![Event::Announced(Announcement { revolution: 1, ..announcement(1, 0) }); 4],
        vec![Event::Credited(u32::MAX), Event::Credited(1)],
        vec![Event::Joined(2)],
        vec![Event::Sent(2)],
        vec![Event::Returned(0)],
        vec![Event::Filled(7)],
        vec![Event::Drained(0), Event::Filled(1)],
    ];
    for events in refused {
        let mut rotation = Rotation::new(position, 2);
        let (last, before) = events.split_last().unwrap();
        before.iter().for_each(|&event| rotation.handle(event).unwrap());
        assert!(rotation.handle(*last).is_err(), "{events:?}");
    }
}

/// The places of frames that are on their way count as free, so that a credit is kept back. When
/// they have arrived, the predecessor has none left, and needs it.
#[test]
fn credits_that_were_kept_back_are_sent_when_frames_arrive() {
    let mut credits = Credits::new(3);
    assert_eq!(credits.due(2), 0, "the first of three frames arrives");
    assert_eq!(credits.give(3), 0, "it leaves while the others are on their way");
    assert_eq!(credits.due(2), 1, "the second one arrives");
    assert_eq!(credits.due(1), 0);
}
