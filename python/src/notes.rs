//! Notes about results, which Python shows as warnings.

use std::mem;

use parking_lot::Mutex;
use pyo3::pyfunction;

static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The most notes that are kept for a caller who does not take them.
const MOST: usize = 1000;

/// Keeps the notes of this process, from now on, until they are taken.
pub fn keep() {
    annulus_cli::notes::send_to(|note| {
        let mut notes = NOTES.lock();
        if notes.len() < MOST && !notes.contains(&note) {
            notes.push(note);
        }
    });
}

/// Returns the notes since the last call.
#[pyfunction]
pub fn take_notes() -> Vec<String> {
    let notes = mem::take(&mut *NOTES.lock());
    notes.iter().map(|note| crate::errors::in_words_of_python(note)).collect()
}
