use parking_lot::Mutex;

use super::*;

/// There are many more threads than cores, so a thread beside these could not tell when they start.
#[test]
fn a_run_lasts_from_the_first_start_to_the_last_end() {
    let stop = Stop::default();
    let cell = Cell {
        shape: Shape::new(32, 32),
        templates: Vec::new(),
        batches: 0,
        rows: 0,
        modulo: Modulo::new(32),
        placement: None,
        stop: &stop,
    };
    for _ in 0..20 {
        let spans = Mutex::new(Vec::new());
        let work = |number: usize| -> Work<'_> {
            let spans = &spans;
            Box::new(move || {
                let first = Instant::now();
                let tally = Tally { rows: number as u64, checksum: 0 };
                spans.lock().push((first, Instant::now()));
                Ok((ExchangeStats::default(), tally, Some(first)))
            })
        };
        let outcome = cell.threads((0..64).map(work).collect()).unwrap();
        let spans = spans.into_inner();
        let start = spans.iter().map(|span| span.0).min().unwrap();
        let end = spans.iter().map(|span| span.1).max().unwrap();
        let since = |instant: Instant| instant.duration_since(start).as_secs_f64();
        assert!(outcome.seconds >= since(end), "{} s", outcome.seconds);
        // Half of the threads consume. Their first rows are seen after the first producer has started.
        assert!(outcome.first_seconds <= outcome.seconds);
        let mut firsts: Vec<_> = spans.iter().map(|span| since(span.0)).collect();
        firsts.sort_by(f64::total_cmp);
        assert!(outcome.first_seconds >= firsts[16], "{} s", outcome.first_seconds);
        assert_eq!(outcome.tallies.iter().map(|tally| tally.rows).collect::<Vec<_>>(), (32..64).collect::<Vec<_>>());
    }
}
