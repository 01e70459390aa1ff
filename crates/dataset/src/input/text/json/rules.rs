//! The rules for values of JSON records, and the types that they are read as.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef, Schema};

use super::{
    cursor::{Cursor, Kind, SyntaxError},
    shape::fits_time,
};
use crate::input::{ColumnType, types::has_text, values::float};

/// The rule for reading the values at one place.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// As a type that the sample shows. Another value is a mistake.
    Inferred(DataType),
    /// As a type that the user gives.
    Given(DataType),
    /// As text, because the sample has objects or lists beside other values.
    JsonText,
    Struct(Fields),
    List(Box<Rule>),
    /// Objects with any keys.
    Map(Box<Rule>),
}

/// The fields of objects.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) rules: Vec<(String, Rule)>,
    places: HashMap<String, usize>,
}

/// A value that does not have its type.
pub(super) struct Mistake {
    /// The names of the fields that lead to it.
    path: Vec<String>,
    reason: String,
    /// Whether another type of its column helps.
    is_of_type: bool,
}

impl Mistake {
    fn new(reason: impl Into<String>) -> Self {
        Self { path: vec![], reason: reason.into(), is_of_type: true }
    }

    fn below(mut self, name: &str) -> Self {
        self.path.insert(0, name.to_owned());
        self
    }

    /// Returns the column whose type is wrong, and the reason.
    pub(super) fn into_parts(self) -> (Option<String>, String) {
        let path = self.path.join(".");
        match self.is_of_type {
            _ if path.is_empty() => (None, self.reason),
            true => (Some(path), self.reason),
            false => (None, format!("'{path}': {}", self.reason)),
        }
    }
}

impl From<SyntaxError> for Mistake {
    fn from(_: SyntaxError) -> Self {
        Self::new("it is not a JSON object; NaN and Infinity are none of JSON's numbers, write them in quotes")
    }
}

impl Rule {
    /// Returns the rule for values that were written with a type. Those that text does not have are
    /// texts.
    fn written(data_type: &DataType) -> Self {
        match data_type {
            DataType::Struct(fields) => {
                let rule = |field: &FieldRef| (field.name().clone(), Self::written(field.data_type()));
                Self::Struct(Fields::new(fields.iter().map(rule).collect()))
            }
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => Self::List(Box::new(Self::written(item.data_type()))),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 && fields[0].data_type().is_string() => {
                    Self::Map(Box::new(Self::written(fields[1].data_type())))
                }
                _ => Self::JsonText,
            },
            DataType::Dictionary(_, values) => Self::written(values),
            leaf if has_text(leaf) => Self::Given(leaf.clone()),
            _ => Self::Given(DataType::Utf8),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Inferred(data_type) | Self::Given(data_type) => data_type.clone(),
            Self::JsonText => DataType::Utf8,
            Self::Struct(fields) => DataType::Struct(fields.schema().fields().clone()),
            Self::List(item) => DataType::List(Arc::new(Field::new_list_field(item.data_type(), true))),
            Self::Map(value) => {
                let fields = [Field::new("key", DataType::Utf8, false), Field::new("value", value.data_type(), true)];
                let entries = DataType::Struct(fields.into_iter().collect());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        }
    }

    /// Checks the value that is next. Objects and lists that are to be read as text are added to
    /// `quoted`.
    fn check(&self, cursor: &mut Cursor<'_>, quoted: &mut Vec<Range<usize>>) -> Result<(), Mistake> {
        let kind = cursor.kind()?.ok_or(SyntaxError)?;
        let start = cursor.at;
        match (self, kind) {
            (_, Kind::Null) => {
                cursor.skip()?;
            }
            (Self::Struct(fields), Kind::Object) => return fields.check(cursor, true, quoted),
            (Self::Map(value), Kind::Object) => {
                cursor.enter();
                let mut is_first = true;
                while let Some(key) = cursor.next_key(&mut is_first)? {
                    value.check(cursor, quoted).map_err(|mistake| mistake.below(&key))?;
                }
            }
            (Self::List(item), Kind::List) => {
                cursor.enter();
                let mut is_first = true;
                while cursor.next_item(&mut is_first)? {
                    item.check(cursor, quoted)?;
                }
            }
            (Self::JsonText | Self::Inferred(DataType::Utf8) | Self::Given(DataType::Utf8), _) => {
                cursor.skip()?;
                if matches!(kind, Kind::List | Kind::Object) {
                    quoted.push(start..cursor.at);
                }
            }
            (Self::Inferred(of @ (DataType::Date32 | DataType::Timestamp(..))), Kind::Text) => {
                let text = cursor.text()?;
                if !fits_time(&text, of) {
                    return Err(self.mismatch(&text));
                }
            }
            (rule, _) => {
                let raw = String::from_utf8_lossy(cursor.skip()?);
                let fits = match (rule, kind) {
                    (Self::Given(_), Kind::Text | Kind::Number | Kind::Bool) => true,
                    (Self::Inferred(DataType::Boolean), Kind::Bool) => true,
                    (Self::Inferred(DataType::Int64), Kind::Number) => *raw != *"-0" && raw.parse::<i64>().is_ok(),
                    (Self::Inferred(DataType::UInt64), Kind::Number) => raw.parse::<u64>().is_ok(),
                    (Self::Inferred(DataType::Float64), Kind::Number) => float(&raw).is_some(),
                    _ => false,
                };
                if !fits {
                    return Err(self.mismatch(&raw));
                }
            }
        }
        Ok(())
    }

    fn mismatch(&self, value: &str) -> Mistake {
        let shown: String = value.chars().take(100).collect();
        Mistake::new(format!("'{shown}' is not a value of type {}", self.data_type()))
    }

    /// Gives the place at `path` below this one a type. A field that is not known is added if
    /// `is_there` finds it.
    fn give(&mut self, path: &[&str], given: &DataType, is_there: &dyn Fn(&str) -> bool) {
        match self {
            _ if path.is_empty() => *self = Self::written(given),
            Self::List(item) => item.give(path, given, is_there),
            Self::Struct(fields) => fields.give(path, given, is_there),
            _ => {}
        }
    }
}

impl Fields {
    pub(super) fn new(rules: Vec<(String, Rule)>) -> Self {
        let places = rules.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
        Self { rules, places }
    }

    pub(super) fn schema(&self) -> Schema {
        let field = |(name, rule): &(String, Rule)| Arc::new(Field::new(name, rule.data_type(), true));
        Schema::new(self.rules.iter().map(field).collect::<Vec<FieldRef>>())
    }

    /// Returns the fields with these names, in this order.
    pub(super) fn project(&self, schema: &Schema) -> Self {
        let rule = |field: &FieldRef| Some(self.rules[*self.places.get(field.name())?].clone());
        Self::new(schema.fields().iter().filter_map(rule).collect())
    }

    /// Gives a column, or a field at a path such as `o.a`, a type. If the sample does not show it,
    /// it is added if `is_there` finds its name in the files.
    pub(super) fn give_type(&mut self, column: &str, ColumnType(given): &ColumnType, is_there: &dyn Fn(&str) -> bool) {
        if self.places.contains_key(column) {
            self.give(&[column], given, is_there);
        } else {
            self.give(&column.split('.').collect::<Vec<_>>(), given, is_there);
        }
    }

    fn give(&mut self, path: &[&str], given: &DataType, is_there: &dyn Fn(&str) -> bool) {
        let Some((name, below)) = path.split_first() else { return };
        match self.places.get(*name) {
            Some(place) => self.rules[*place].1.give(below, given, is_there),
            None if path.iter().all(|name| is_there(name)) => {
                let leaf = Rule::written(given);
                let within = |rule, name: &&str| Rule::Struct(Self::new(vec![((*name).to_owned(), rule)]));
                let rule = below.iter().rev().fold(leaf, within);
                self.places.insert((*name).to_owned(), self.rules.len());
                self.rules.push(((*name).to_owned(), rule));
            }
            None => {}
        }
    }

    /// Checks the object that is next. Other fields than these are mistakes if `are_all`.
    pub(super) fn check(
        &self,
        cursor: &mut Cursor<'_>,
        are_all: bool,
        quoted: &mut Vec<Range<usize>>,
    ) -> Result<(), Mistake> {
        if cursor.kind()? != Some(Kind::Object) {
            return Err(SyntaxError.into());
        }
        cursor.enter();
        let (mut is_first, mut seen, mut expected) = (true, vec![false; self.rules.len()], 0);
        while let Some(key) = cursor.next_key(&mut is_first)? {
            // Most objects have their fields in the order of the first one.
            let place = match self.rules.get(expected) {
                Some((name, _)) if *name == *key => Some(expected),
                _ => self.places.get(&*key).copied(),
            };
            let Some(place) = place else {
                if are_all {
                    let reason = "no object of the sample that types were inferred from has this key";
                    return Err(Mistake::new(reason).below(&key));
                }
                cursor.skip()?;
                continue;
            };
            expected = place + 1;
            if std::mem::replace(&mut seen[place], true) {
                let twice = Mistake::new("the key appears twice in one object").below(&key);
                return Err(Mistake { is_of_type: false, ..twice });
            }
            self.rules[place].1.check(cursor, quoted).map_err(|mistake| mistake.below(&key))?;
        }
        Ok(())
    }
}
