//! Tests of the engine: contended lines against a closed form, locks, and cores.

use super::*;

const NEAR: f64 = 40.0;
const WAKE: f64 = 1000.0;

struct Small(Engine);

impl HasEngine for Small {
    fn engine(&mut self) -> &mut Engine {
        &mut self.0
    }
}

fn engine(cores: usize) -> Small {
    let machine = Machine { near_ns: NEAR, ..Machine::grace() };
    Small(Engine::new(&machine, &FittedParameters { wake_ns: WAKE, ..FittedParameters::START }, cores))
}

/// Producers change one line `left` times, and work for `think` ns after each time. Consumers end.
struct Contend {
    line: usize,
    left: Vec<usize>,
    thinks: Vec<bool>,
    think: f64,
    end: f64,
}

impl Contend {
    fn run(cores: usize, times: usize, think: f64) -> f64 {
        let mut world = engine(cores);
        let line = world.0.new_line();
        let program = Self { line, left: vec![times; cores], thinks: vec![false; cores], think, end: 0.0 };
        let mut end = 0.0;
        run(Ending(program, &mut end), &mut world, "test").unwrap();
        end
    }
}

struct Ending<'a>(Contend, &'a mut f64);

impl Program<Small> for Ending<'_> {
    fn step(&mut self, world: &mut Small, thread: usize) -> Step {
        let program = &mut self.0;
        if thread >= program.left.len() {
            return Step::End;
        }
        if std::mem::take(&mut program.thinks[thread]) {
            return Step::Run(program.think);
        }
        if program.left[thread] == 0 {
            program.end = world.0.now();
            *self.1 = program.end;
            return Step::End;
        }
        program.left[thread] -= 1;
        program.thinks[thread] = program.think > 0.0;
        Step::Run(world.0.touch(program.line, thread, 0.0))
    }
}

#[test]
fn a_contended_line_serves_one_core_after_the_other() {
    for cores in [2, 3, 8, 64] {
        for times in [1, 10, 100] {
            // Every core has its first turn after its switch, then each operation moves the line.
            let expected = WAKE + (cores * times) as f64 * NEAR;
            assert!((Contend::run(cores, times, 0.0) - expected).abs() < 1e-6, "{cores} cores, {times} times");
        }
    }
}

#[test]
fn a_line_that_is_seldom_used_costs_its_move_alone() {
    let (cores, times, think) = (4, 50, 4.0 * NEAR);
    // The cores queue once, at the beginning, and never meet again.
    let expected = WAKE + cores as f64 * NEAR + (times - 1) as f64 * NEAR + times as f64 * think;
    assert!((Contend::run(cores, times, think) - expected).abs() < 1e-6);
}

#[test]
fn a_core_keeps_a_line_that_no_other_one_wants() {
    let expected = WAKE + NEAR + 99.0 * OWN_NS;
    assert!((Contend::run(1, 100, 0.0) - expected).abs() < 1e-6);
}

/// All threads take one lock in turn, and keep it for a time.
struct Exclude {
    lock: usize,
    inside: Option<usize>,
    left: Vec<usize>,
    holds: Vec<bool>,
}

impl Program<Small> for Exclude {
    fn step(&mut self, world: &mut Small, thread: usize) -> Step {
        if self.inside == Some(thread) {
            self.inside = None;
            return Step::Run(world.0.unlock(self.lock));
        }
        if std::mem::take(&mut self.holds[thread]) {
            assert_eq!(self.inside, None, "two threads have the lock");
            self.inside = Some(thread);
            return Step::Run(100.0);
        }
        if self.left[thread] == 0 {
            return Step::End;
        }
        self.left[thread] -= 1;
        self.holds[thread] = true;
        Step::Lock(self.lock)
    }
}

#[test]
fn a_lock_has_one_owner_and_everyone_gets_it() {
    let mut world = engine(5);
    let lock = world.0.new_lock();
    let program = Exclude { lock, inside: None, left: vec![20; 10], holds: vec![false; 10] };
    run(program, &mut world, "test").unwrap();
    assert!(world.0.now() >= 200.0 * 100.0);
    assert_eq!(world.0.counts().producer_locks, 100);
}

struct Sleep(usize);

impl Program<Small> for Sleep {
    fn step(&mut self, _: &mut Small, _: usize) -> Step {
        Step::Wait(self.0)
    }
}

#[test]
fn threads_that_nobody_wakes_are_an_error() {
    let mut world = engine(2);
    let queue = world.0.new_queue();
    let error = run(Sleep(queue), &mut world, "sleep").unwrap_err();
    assert_eq!(error.to_string(), "the simulation of sleep cannot continue: every thread waits");
}

/// Both threads of each core work for the same time, in steps.
struct Share(Vec<usize>);

impl Program<Small> for Share {
    fn step(&mut self, _: &mut Small, thread: usize) -> Step {
        if self.0[thread] == 0 {
            return Step::End;
        }
        self.0[thread] -= 1;
        Step::Run(1e6)
    }
}

#[test]
fn two_threads_of_a_core_take_turns() {
    let mut world = engine(1);
    run(Share(vec![30, 30]), &mut world, "test").unwrap();
    let switches = world.0.counts().switches;
    assert_eq!(world.0.now(), 60e6 + switches as f64 * WAKE);
    assert!((20..=22).contains(&switches), "a slice is 3 ms: {switches}");
}
