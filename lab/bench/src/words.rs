//! Words of the command line.

use clap::ValueEnum;

/// Returns the word for `value` on the command line.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
