//! How a command ended.

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// An answer of Annulus is not that of stock DataFusion, or could not be compared.
    Differs,
    /// By a signal, with its number.
    Interrupted(u8),
}
