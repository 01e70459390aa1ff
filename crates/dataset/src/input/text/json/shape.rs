//! Infers the columns of JSON records from a sample.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use serde::de::IgnoredAny;

use super::{
    cursor::{Cursor, Kind, SyntaxError},
    rules::{Fields, Rule},
};
use crate::input::{
    guess::widen,
    text::records::Syntax,
    values::{ValueSyntax, float},
};

/// A deeper value is read as text.
const MOST_DEPTH: usize = 64;

/// The columns that a sample of records shows.
#[derive(Default)]
pub(super) struct Sample {
    columns: Objects,
}

impl Sample {
    /// Adds `record` if it is an object.
    pub(super) fn add(&mut self, record: &[u8], syntax: Syntax) {
        let record = &*super::objects(syntax, record);
        let is_object = record.trim_ascii_start().starts_with(b"{");
        if is_object && serde_json::from_slice::<IgnoredAny>(record).is_ok() {
            // A valid object can be walked over.
            let _ = self.columns.add(&mut Cursor::new(record), 0);
        }
    }

    /// Returns the columns, in the order in which they first appear.
    pub(super) fn fields(&self) -> Fields {
        self.columns.fields()
    }
}

/// The evidence of the values at one place.
#[derive(Default)]
struct Shape {
    has_bools: bool,
    numbers: Option<Numbers>,
    /// The type of the texts.
    texts: Option<DataType>,
    list: Option<Box<Shape>>,
    objects: Option<Objects>,
    is_too_deep: bool,
}

/// The evidence of numbers.
#[derive(Clone, Copy)]
struct Numbers {
    are_integers: bool,
    fit_i64: bool,
    fit_u64: bool,
    fit_f64: bool,
}

/// The evidence of objects.
#[derive(Default)]
struct Objects {
    /// The place of each key.
    places: HashMap<String, usize>,
    shapes: Vec<(String, Shape)>,
}

impl Objects {
    /// Adds the object that is next.
    fn add(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), SyntaxError> {
        cursor.kind()?;
        cursor.enter();
        let mut is_first = true;
        while let Some(key) = cursor.next_key(&mut is_first)? {
            let place = match self.places.get(&*key) {
                Some(place) => *place,
                None => {
                    self.places.insert(key.clone().into_owned(), self.shapes.len());
                    self.shapes.push((key.into_owned(), Shape::default()));
                    self.shapes.len() - 1
                }
            };
            self.shapes[place].1.add(cursor, depth + 1)?;
        }
        Ok(())
    }

    fn fields(&self) -> Fields {
        Fields::new(self.shapes.iter().map(|(name, shape)| (name.clone(), shape.rule())).collect())
    }
}

impl Shape {
    /// Adds the value that is next.
    fn add(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), SyntaxError> {
        match cursor.kind()?.ok_or(SyntaxError)? {
            Kind::Null => {
                cursor.skip()?;
            }
            Kind::Bool => {
                cursor.skip()?;
                self.has_bools = true;
            }
            Kind::Number => {
                let number = String::from_utf8_lossy(cursor.skip()?);
                let numbers = Numbers::of_one(&number);
                self.numbers = Some(self.numbers.map_or(numbers, |known| known.and(numbers)));
            }
            Kind::Text => {
                let found = text_type(&cursor.text()?);
                let known = self.texts.take().unwrap_or(DataType::Null);
                self.texts = Some(widen(&known, &found));
            }
            _ if depth >= MOST_DEPTH => {
                cursor.skip()?;
                self.is_too_deep = true;
            }
            Kind::List => {
                cursor.enter();
                let (items, mut is_first) = (self.list.get_or_insert_default(), true);
                while cursor.next_item(&mut is_first)? {
                    items.add(cursor, depth + 1)?;
                }
            }
            Kind::Object => self.objects.get_or_insert_default().add(cursor, depth)?,
        }
        Ok(())
    }

    /// Returns the rule that keeps all values. Objects or lists beside other values are kept as
    /// text, and so are objects that never have a key.
    fn rule(&self) -> Rule {
        let has_scalars = self.has_bools || self.numbers.is_some() || self.texts.is_some();
        let text = Rule::Inferred(DataType::Utf8);
        match (&self.list, &self.objects) {
            _ if self.is_too_deep => Rule::JsonText,
            (Some(items), None) if !has_scalars => Rule::List(Box::new(items.rule())),
            (None, Some(objects)) if !has_scalars && !objects.shapes.is_empty() => Rule::Struct(objects.fields()),
            (None, None) => match (self.has_bools, self.numbers, &self.texts) {
                (true, None, None) => Rule::Inferred(DataType::Boolean),
                (false, Some(numbers), None) => Rule::Inferred(numbers.data_type()),
                (false, None, Some(texts)) => Rule::Inferred(texts.clone()),
                _ => text,
            },
            _ => Rule::JsonText,
        }
    }
}

impl Numbers {
    fn of_one(number: &str) -> Self {
        let digits = number.strip_prefix('-').unwrap_or(number);
        // Minus zero is no integer.
        let are_integers = number != "-0" && digits.bytes().all(|byte| byte.is_ascii_digit());
        Self {
            are_integers,
            fit_i64: number.parse::<i64>().is_ok(),
            fit_u64: number.parse::<u64>().is_ok(),
            fit_f64: float(number).is_some(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            are_integers: self.are_integers && other.are_integers,
            fit_i64: self.fit_i64 && other.fit_i64,
            fit_u64: self.fit_u64 && other.fit_u64,
            fit_f64: self.fit_f64 && other.fit_f64,
        }
    }

    /// Returns the type that keeps all numbers as they are written. If no other type does, that is
    /// text.
    fn data_type(self) -> DataType {
        match self {
            Self { are_integers: true, fit_i64: true, .. } => DataType::Int64,
            Self { are_integers: true, fit_u64: true, .. } => DataType::UInt64,
            Self { are_integers: false, fit_f64: true, .. } => DataType::Float64,
            _ => DataType::Utf8,
        }
    }
}

/// Returns the type of a text: a date, a time, or text. Numbers in quotes are texts.
fn text_type(text: &str) -> DataType {
    match ValueSyntax::default().infer(text) {
        time @ (DataType::Date32 | DataType::Timestamp(..)) => time,
        _ => DataType::Utf8,
    }
}

/// Returns whether a text has a value of a type of times that its column was inferred to have.
pub(super) fn fits_time(text: &str, data_type: &DataType) -> bool {
    widen(data_type, &text_type(text)) == *data_type
}
