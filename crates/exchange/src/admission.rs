//! The answer to a producer that asks whether it may send.

/// The answer to a producer that asks whether it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// There is a free slot: the producer may send.
    Granted,
    /// There may be a free slot after other tasks have run. A task yields, then asks again.
    Yield,
}
