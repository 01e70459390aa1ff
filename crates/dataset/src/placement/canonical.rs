//! The text of a placement: equal for equal placements, and the same from one version of this crate
//! to the next.

use arrow::{
    array::{Array, ArrayRef},
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};
use serde::{Deserialize, Serialize};

use super::{
    Placement, PlacementSpec, Rule,
    hash::{FIRST_HASH, hash_name},
    ranges::Ranges,
};
use crate::error::DatasetError;

/// The version of the text, raised when the meaning of a field changes.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Canonical {
    version: u32,
    #[serde(flatten)]
    rule: Named,
}

/// A rule with its parameters. Its names are part of the stored text.
#[derive(Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
enum Named {
    Hash {
        texts_as_views: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
    },
    KeyGroups {
        groups: usize,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        texts_as_views: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        hash: Option<String>,
    },
    Ranges {
        points: Vec<Vec<Option<String>>>,
    },
    Values {
        buckets: usize,
    },
    RoundRobin,
}

impl Placement {
    /// Returns a JSON object with the rule and its parameters. It does not have the number of
    /// partitions, except by value.
    pub(crate) fn canonical(&self) -> String {
        let hash = || Some(hash_name().to_owned()).filter(|name| name != FIRST_HASH);
        let rule = match &self.rule {
            Rule::Hash(hasher, _) => Named::Hash { texts_as_views: hasher.has_views(), hash: hash() },
            Rule::KeyGroups(hasher, groups) => {
                Named::KeyGroups { groups: groups.count(), texts_as_views: hasher.has_views(), hash: hash() }
            }
            Rule::Ranges(ranges) => Named::Ranges { points: points_text(ranges.points()) },
            Rule::Values(_, modulo) => Named::Values { buckets: modulo.consumers() },
            Rule::RoundRobin => Named::RoundRobin,
        };
        serde_json::to_string(&Canonical { version: VERSION, rule }).expect("texts and numbers have a JSON form")
    }
}

/// The rule that a placement's text tells.
pub(crate) enum Stored {
    /// By the hash that this version computes, modulo the number of partitions.
    Hash { texts_as_views: bool },
    /// By another hash.
    OtherHash,
    /// By split points, as text.
    Ranges(Vec<Vec<Option<String>>>),
    /// By another rule, as in "rows were placed ...".
    Other(&'static str),
}

impl Stored {
    /// Parses a placement's text; `None` if it is of another version.
    pub(crate) fn parse(canonical: &str) -> Option<Self> {
        let Canonical { version: VERSION, rule } = serde_json::from_str(canonical).ok()? else { return None };
        Some(match rule {
            Named::Hash { hash, .. } if hash.as_deref().unwrap_or(FIRST_HASH) != hash_name() => Self::OtherHash,
            Named::Hash { texts_as_views, .. } => Self::Hash { texts_as_views },
            Named::KeyGroups { .. } => Self::Other("by key groups"),
            Named::Ranges { points } => Self::Ranges(points),
            Named::Values { .. } => Self::Other("by value"),
            Named::RoundRobin => Self::Other("in turn"),
        })
    }
}

/// Returns whether the texts of two placements are of the same one. Whether texts are hashed as views
/// makes no difference if no key is a text, or all that are one are views already.
pub(crate) fn alike(left: Option<&str>, right: Option<&str>, has_texts: bool) -> bool {
    let normal = |canonical: &str| -> Option<String> {
        let mut told: Canonical = serde_json::from_str(canonical).ok()?;
        if let Named::Hash { texts_as_views, .. } | Named::KeyGroups { texts_as_views, .. } = &mut told.rule {
            *texts_as_views &= has_texts;
        }
        serde_json::to_string(&told).ok()
    };
    left == right || left.and_then(normal).zip(right.and_then(normal)).is_some_and(|(left, right)| left == right)
}

/// Returns the split points in a placement's text, for key columns of `schema`. Returns `None` if
/// the text is of another rule or version.
///
/// # Errors
/// If a value is not one of its column's type.
pub(crate) fn splits_of(
    canonical: &str,
    schema: &SchemaRef,
    keys: &[String],
) -> Result<Option<PlacementSpec>, DatasetError> {
    match Stored::parse(canonical) {
        Some(Stored::Ranges(points)) => {
            points_from_text(schema, keys, &points).map(|columns| Some(PlacementSpec::Splits(columns)))
        }
        _ => Ok(None),
    }
}

/// Returns a column of split points for each of the columns `keys` of `schema`.
///
/// # Errors
/// If a value is not one of its column's type.
pub(crate) fn points_from_text(
    schema: &SchemaRef,
    keys: &[String],
    points: &[Vec<Option<String>>],
) -> Result<Vec<ArrayRef>, DatasetError> {
    Ranges::columns_from_text(schema, keys, points)
}

/// Returns the values of each split point as text.
fn points_text(columns: &[ArrayRef]) -> Vec<Vec<Option<String>>> {
    let options = FormatOptions::default().with_display_error(true);
    let value = |column: &ArrayRef, row: usize| match ArrayFormatter::try_new(column, &options) {
        Ok(shown) => column.is_valid(row).then(|| shown.value(row).to_string()),
        Err(error) => Some(error.to_string()),
    };
    let points = columns.first().map_or(0, |column| column.len());
    (0..points).map(|row| columns.iter().map(|column| value(column, row)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{Int64Array, StringArray},
        datatypes::{DataType, Field, Schema},
    };

    use super::*;
    use crate::placement::PlacementSpec;

    #[test]
    fn a_hash_of_another_name_is_another_hash() {
        let hash = |name: &str| format!(r#"{{"version":1,"rule":"hash","texts_as_views":false{name}}}"#);
        let is_ours = |name: &str| matches!(Stored::parse(&hash(name)), Some(Stored::Hash { texts_as_views: false }));
        assert!(is_ours("") && is_ours(&format!(r#","hash":"{}""#, hash_name())));
        assert!(matches!(Stored::parse(&hash(r#","hash":"0123456789abcdef""#)), Some(Stored::OtherHash)));
        assert!(Stored::parse(&hash("").replace("1", "2")).is_none());
    }

    /// Texts that older versions have stored must keep their meaning.
    #[test]
    fn the_text_of_each_rule_does_not_change() {
        let field = |name, of| Field::new(name, of, true);
        let schema = Arc::new(Schema::new(vec![field("k", DataType::Int64), field("t", DataType::Utf8)]));
        let text = |spec: PlacementSpec, keys: &[&str]| {
            let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
            Placement::new(&spec, &schema, &keys, 3).unwrap().canonical()
        };
        let hash = r#"{"version":1,"rule":"hash","texts_as_views":false}"#;
        assert_eq!(text(PlacementSpec::Hash, &["t"]), hash);
        assert_eq!(text(PlacementSpec::HashOfValues, &["k"]), hash, "it places numbers as the other does");
        let views = r#"{"version":1,"rule":"hash","texts_as_views":true}"#;
        assert_eq!(text(PlacementSpec::HashOfValues, &["k", "t"]), views);
        assert!(alike(Some(hash), Some(views), false) && !alike(Some(hash), Some(views), true));
        assert_eq!(text(PlacementSpec::KeyGroups(64), &["k"]), r#"{"version":1,"rule":"key_groups","groups":64}"#);
        let groups = r#"{"version":1,"rule":"key_groups","groups":64,"texts_as_views":true}"#;
        assert_eq!(text(PlacementSpec::KeyGroups(64), &["t"]), groups);
        assert_eq!(text(PlacementSpec::RoundRobin, &[]), r#"{"version":1,"rule":"round_robin"}"#);
        assert_eq!(text(PlacementSpec::Values, &["k"]), r#"{"version":1,"rule":"values","buckets":3}"#);
        let given = PlacementSpec::Ranges(vec![vec!["5".into(), "a,b".into()], vec!["07".into(), "\"".into()]]);
        let points = r#"{"version":1,"rule":"ranges","points":[["5","a,b"],["7","\""]]}"#;
        assert_eq!(text(given, &["k", "t"]), points);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(5)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("null")]));
        let points = r#"{"version":1,"rule":"ranges","points":[["5",null],["5","null"]]}"#;
        assert_eq!(text(PlacementSpec::Splits(vec![numbers, texts]), &["k", "t"]), points);
    }
}
