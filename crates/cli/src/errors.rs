//! Errors as people read them.

use std::io;

use anyhow::Error;

/// The message of `error` and its causes on one line, without repeating a cause that is already part of the message.
pub fn text(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string().replace("\ncaused by\n", ": ");
        if !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    text
}

/// Whether the reader of our output, `head` for instance, has seen enough.
pub fn is_closed_pipe(error: &Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let error = Error::msg("cannot read").context("cannot read").context("table 't'");
        assert_eq!(text(&error), "table 't': cannot read");
    }

    #[test]
    fn a_closed_pipe_is_found_behind_other_messages() {
        let pipe = Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot print");
        assert!(is_closed_pipe(&pipe));
        assert!(!is_closed_pipe(&Error::from(io::Error::from(io::ErrorKind::NotFound))));
    }
}
