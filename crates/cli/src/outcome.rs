//! The result of a command.

/// The result of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// An answer differs from that of stock DataFusion, or a file from its manifest.
    Differs,
    /// The command was ended by the signal with this number.
    Interrupted(u8),
}
