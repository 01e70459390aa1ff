//! The values of options of `annulus join`.

use std::{fmt, str::FromStr};

use annulus_datafusion::NearestOrder;
use annulus_join::JoinType;
use clap::ValueEnum;

/// The type of a join.
#[derive(Clone, Copy, ValueEnum)]
pub enum TypeArg {
    /// Pairs that match
    Inner,
    /// Pairs that match, and rows of LEFT without a match
    Left,
    /// Pairs that match, and rows of RIGHT without a match
    Right,
    /// Pairs that match, and rows of both without a match
    #[value(alias = "outer")]
    Full,
    /// Rows of LEFT with a match
    Semi,
    /// Rows of LEFT without a match
    Anti,
    /// Rows of RIGHT with a match
    RightSemi,
    /// Rows of RIGHT without a match
    RightAnti,
}

impl TypeArg {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inner => "inner",
            Self::Left => "left",
            Self::Right => "right",
            Self::Full => "full",
            Self::Semi => "semi",
            Self::Anti => "anti",
            Self::RightSemi => "right-semi",
            Self::RightAnti => "right-anti",
        }
    }
}

impl From<TypeArg> for JoinType {
    fn from(join: TypeArg) -> Self {
        match join {
            TypeArg::Inner => Self::Inner,
            TypeArg::Left => Self::Left,
            TypeArg::Right => Self::Right,
            TypeArg::Full => Self::Full,
            TypeArg::Semi => Self::LeftSemi,
            TypeArg::Anti => Self::LeftAnti,
            TypeArg::RightSemi => Self::RightSemi,
            TypeArg::RightAnti => Self::RightAnti,
        }
    }
}

/// Whether workers share the input files.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputsArg {
    /// All workers see the same files, and each reads a part of them
    Shared,
    /// Each worker has its own files and reads all of them; this machine needs some, too, to plan
    /// the join
    Each,
}

/// The order of a nearest-rows join: `[K] BY {DISTANCE | SIMILARITY} EXPRESSION`.
#[derive(Clone, Debug, PartialEq)]
pub struct NearestArg {
    /// The number of rows.
    pub k: usize,
    pub order: NearestOrder,
    /// The expression, as SQL.
    pub by: String,
}

impl FromStr for NearestArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "invalid order '{text}': expected an optional number of rows, BY DISTANCE or BY SIMILARITY, and an \
                 expression, such as '10 BY DISTANCE abs(a.x - b.x)'"
            )
        };
        let (first, rest) = first_word(text);
        let (k, (by, rest)) = match first.parse() {
            Ok(k) => (k, first_word(rest)),
            Err(_) => (1, (first, rest)),
        };
        let (order, expression) = first_word(rest);
        let order = match (by.as_str(), order.as_str()) {
            ("by", "distance") => NearestOrder::Distance,
            ("by", "similarity") => NearestOrder::Similarity,
            _ => return Err(refused()),
        };
        let by = expression.trim();
        if by.is_empty() { Err(refused()) } else { Ok(Self { k, order, by: by.to_owned() }) }
    }
}

/// Returns the first word of a text in lower case, and the rest.
fn first_word(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    (text[..end].to_lowercase(), &text[end..])
}

impl fmt::Display for NearestArg {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} BY {} {}", self.k, self.order.to_string().to_uppercase(), self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_in_sql() {
        let parsed = |text: &str| text.parse::<NearestArg>().map(|nearest| nearest.to_string());
        assert_eq!(parsed("10 BY DISTANCE abs(a.x - b.x)").unwrap(), "10 BY DISTANCE abs(a.x - b.x)");
        assert_eq!(parsed(" by similarity(a.x * b.x)").unwrap(), "1 BY SIMILARITY (a.x * b.x)");
        for text in ["", "10", "10 BY", "BY DISTANCE", "BY LIKENESS x", "x BY DISTANCE y", "-1 BY DISTANCE x"] {
            assert!(parsed(text).unwrap_err().contains("BY DISTANCE or BY SIMILARITY"), "{text}");
        }
    }
}
