//! Models of the counts alone. Those of `exchange/` and `tests/loom_reserve.rs` have the consumers
//! that wait.

use std::sync::Arc;

use loom::thread;

use super::Activity;
use crate::waiting::bell::model;

/// One producer turns idle while the other one ends. At least one of them sees that no producer is
/// at work.
#[test]
fn a_pause_meets_an_end() {
    model(3, || {
        let activity = Arc::new(Activity::new(2));
        let other = Arc::clone(&activity);
        let ends = thread::spawn(move || other.finish());
        let pauses = activity.idle();
        assert!(ends.join().unwrap() || pauses, "neither wakes the consumers");
    });
}

/// A producer pauses, resumes and ends while another one is at work. That is not taken for a pause
/// of all.
#[test]
fn an_end_is_not_a_pause() {
    model(3, || {
        let activity = Arc::new(Activity::new(2));
        let other = Arc::clone(&activity);
        let ends = thread::spawn(move || {
            assert!(!other.idle());
            other.resume();
            assert!(!other.finish());
        });
        assert!(!activity.all_idle(), "this producer has not paused");
        ends.join().unwrap();
    });
}
