//! The placement as a manifest records it: equal for equal placements, and the same from one version of
//! this crate to the next.

use arrow::{
    array::{Array, ArrayRef},
    datatypes::SchemaRef,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    Placement, PlacementSpec, Rule,
    hash::{FIRST_HASH, hash_name},
    ranges::Ranges,
};
use crate::{error::DatasetError, manifest::PlacementRule};

impl Placement {
    /// Returns the rule and its parameters. It does not have the number of partitions, except by value.
    pub(crate) fn recorded(&self) -> PlacementRule {
        let hash = || Some(hash_name().to_owned()).filter(|name| name != FIRST_HASH);
        match &self.rule {
            Rule::Hash(hasher, _) => PlacementRule::Hash { texts_as_views: hasher.has_views(), hash: hash() },
            Rule::KeyGroups(hasher, groups) => {
                PlacementRule::KeyGroups { groups: groups.count(), texts_as_views: hasher.has_views(), hash: hash() }
            }
            Rule::Ranges(ranges) => PlacementRule::Ranges { points: points_text(ranges.points()) },
            Rule::Values(_, modulo) => PlacementRule::Values { buckets: modulo.consumers() },
            Rule::RoundRobin => PlacementRule::RoundRobin,
        }
    }
}

/// Returns whether this version computes the hash of this name.
pub(crate) fn is_our_hash(hash: Option<&str>) -> bool {
    hash.unwrap_or(FIRST_HASH) == hash_name()
}

/// Returns the split points of a rule, for key columns of `schema`. Returns `None` for other rules.
///
/// # Errors
/// If a value is not one of its column's type.
pub(crate) fn splits_of(
    rule: &PlacementRule,
    schema: &SchemaRef,
    keys: &[String],
) -> Result<Option<PlacementSpec>, DatasetError> {
    match rule {
        PlacementRule::Ranges { points } => {
            points_from_text(schema, keys, points).map(|columns| Some(PlacementSpec::Splits(columns)))
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

    #[test]
    fn a_hash_of_another_name_is_another_hash() {
        assert!(is_our_hash(None) && is_our_hash(Some(hash_name())) && !is_our_hash(Some("0123456789abcdef")));
    }

    /// Texts that older versions have stored must keep their meaning.
    #[test]
    fn the_text_of_each_rule_does_not_change() {
        let field = |name, of| Field::new(name, of, true);
        let schema = Arc::new(Schema::new(vec![field("k", DataType::Int64), field("t", DataType::Utf8)]));
        let text = |spec: PlacementSpec, keys: &[&str]| {
            let keys: Vec<_> = keys.iter().map(|&key| key.to_owned()).collect();
            let rule = Placement::new(&spec, &schema, &keys, 3).unwrap().recorded();
            serde_json::to_string(&rule).unwrap()
        };
        let hash = r#"{"rule":"hash","texts_as_views":false}"#;
        assert_eq!(text(PlacementSpec::Hash, &["t"]), hash);
        assert_eq!(text(PlacementSpec::HashOfValues, &["k"]), hash, "it places numbers as the other does");
        let views = r#"{"rule":"hash","texts_as_views":true}"#;
        assert_eq!(text(PlacementSpec::HashOfValues, &["k", "t"]), views);
        let [hash, views] = [hash, views].map(|text| serde_json::from_str::<PlacementRule>(text).unwrap());
        assert!(hash.is_like(&views, false) && !hash.is_like(&views, true));
        assert_eq!(text(PlacementSpec::KeyGroups(64), &["k"]), r#"{"rule":"key_groups","groups":64}"#);
        let groups = r#"{"rule":"key_groups","groups":64,"texts_as_views":true}"#;
        assert_eq!(text(PlacementSpec::KeyGroups(64), &["t"]), groups);
        assert_eq!(text(PlacementSpec::RoundRobin, &[]), r#"{"rule":"round_robin"}"#);
        assert_eq!(text(PlacementSpec::Values, &["k"]), r#"{"rule":"values","buckets":3}"#);
        let given = PlacementSpec::Ranges(vec![vec!["5".into(), "a,b".into()], vec!["07".into(), "\"".into()]]);
        let points = r#"{"rule":"ranges","points":[["5","a,b"],["7","\""]]}"#;
        assert_eq!(text(given, &["k", "t"]), points);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(5)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![None, Some("null")]));
        let points = r#"{"rule":"ranges","points":[["5",null],["5","null"]]}"#;
        assert_eq!(text(PlacementSpec::Splits(vec![numbers, texts]), &["k", "t"]), points);
    }
}
