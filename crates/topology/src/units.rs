//! Numbers with units, as texts.

/// Returns a number of things: `1 CPU`, `2 CPUs`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Rounds to at most two digits after the point, and leaves out those that are 0.
pub(crate) fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Returns a number of bytes in its largest binary unit, with at most two digits after the point:
/// `48 KiB`, `1.25 MiB`.
///
/// ```
/// assert_eq!(annulus_topology::short_bytes(32 << 20), "32 MiB");
/// assert_eq!(annulus_topology::short_bytes(1280 << 10), "1.25 MiB");
/// ```
pub fn short_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|&(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{} {unit}", hundredths(bytes as f64 / (1u64 << shift) as f64)),
        None => format!("{bytes} B"),
    }
}
