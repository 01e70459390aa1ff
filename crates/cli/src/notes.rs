//! Notes for people, beside the results: on standard error, or where a program that embeds the commands
//! wants them.

use std::{fmt::Display, sync::OnceLock};

static RECEIVER: OnceLock<fn(String)> = OnceLock::new();

/// Makes `receiver` get the notes of this process from now on. The first call counts.
pub fn send_to(receiver: fn(String)) {
    // A second receiver is ignored, as documented.
    RECEIVER.set(receiver).ok();
}

/// Tells people what may surprise them in a result.
pub fn note(text: impl Display) {
    match RECEIVER.get() {
        Some(receiver) => receiver(text.to_string()),
        None => eprintln!("note: {text}"),
    }
}

/// Tells people what happened, in a sentence of its own.
pub fn say(text: impl Display) {
    match RECEIVER.get() {
        Some(receiver) => receiver(text.to_string()),
        None => eprintln!("{text}"),
    }
}
