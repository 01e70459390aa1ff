//! Medians, their spread, and the shortest time that counts as measured.

/// The shortest run that counts as measured, in seconds. Below it, starting threads and reading
/// clocks take a large part of the time.
pub const SHORTEST_S: f64 = 1e-3;
/// The text in place of a value that was not measured long enough.
pub const TOO_SHORT: &str = "too short";

/// Returns the value below which `share` of the sorted values lie, with linear interpolation
/// between neighbours; 0 without values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let position = share * last as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// Returns the median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// Returns the interquartile range divided by the median.
pub fn spread(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / quantile(&sorted, 0.5)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_lie_in_the_middle() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), 5.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn outliers_do_not_widen_the_spread() {
        assert_eq!(spread(&[2.0, 2.0, 2.0, 2.0, 90.0]), 0.0);
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 3.0);
    }
}
