//! The rule by which rows are placed, as a manifest records it.

use serde::{Deserialize, Serialize};

/// The rule by which the rows of a dataset were placed. Its names are part of the stored text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum PlacementRule {
    /// By the keys' hash: `hash % N`.
    Hash {
        /// Whether texts and bytes were hashed as views.
        texts_as_views: bool,
        /// The name of the hash function; `None` for the one of the first version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
    },
    /// By ranges of key groups, `hash % groups`.
    KeyGroups {
        /// The number of key groups.
        groups: usize,
        /// Whether texts and bytes were hashed as views.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        texts_as_views: bool,
        /// The name of the hash function; `None` for the one of the first version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
    },
    /// By split points.
    Ranges {
        /// The split points, ascending: a value of each key column as text, `None` for null.
        points: Vec<Vec<Option<String>>>,
    },
    /// By value: each has a folder.
    Values {
        /// The number of buckets that rows go to first.
        buckets: usize,
    },
    /// In turn.
    RoundRobin,
    /// By a rule that this version does not know.
    #[serde(other)]
    Unknown,
}

impl PlacementRule {
    /// Returns whether both place rows alike. Whether texts are hashed as views makes no difference
    /// if no key is a text, or all that are one are views already.
    pub(crate) fn is_like(&self, other: &Self, has_texts: bool) -> bool {
        let known = |rule: &Self| {
            let mut rule = rule.clone();
            if let Self::Hash { texts_as_views, .. } | Self::KeyGroups { texts_as_views, .. } = &mut rule {
                *texts_as_views &= has_texts;
            }
            (rule != Self::Unknown).then_some(rule)
        };
        known(self).is_some_and(|rule| Some(rule) == known(other))
    }
}
