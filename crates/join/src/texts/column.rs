//! A column of texts.

use arrow::{
    array::{Array, AsArray, LargeStringArray, StringArray, StringViewArray},
    datatypes::DataType,
};

use crate::error::JoinError;

/// A column of texts of any Arrow type. It shares the memory of the array.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Texts(StringArray),
    LargeTexts(LargeStringArray),
    Views(StringViewArray),
}

impl Column {
    pub(super) fn new(texts: &dyn Array) -> Result<Self, JoinError> {
        u32::try_from(texts.len()).map_err(|_| JoinError::TooManyRows { rows: texts.len() })?;
        match texts.data_type() {
            DataType::Utf8 => Ok(Self::Texts(texts.as_string().clone())),
            DataType::LargeUtf8 => Ok(Self::LargeTexts(texts.as_string().clone())),
            DataType::Utf8View => Ok(Self::Views(texts.as_string_view().clone())),
            other => Err(JoinError::TextsUnsupported { data_type: other.clone() }),
        }
    }

    pub(super) fn rows(&self) -> u32 {
        let rows = match self {
            Self::Texts(texts) => texts.len(),
            Self::LargeTexts(texts) => texts.len(),
            Self::Views(texts) => texts.len(),
        };
        rows as u32
    }

    pub(super) fn has_nulls(&self) -> bool {
        match self {
            Self::Texts(texts) => texts.null_count() > 0,
            Self::LargeTexts(texts) => texts.null_count() > 0,
            Self::Views(texts) => texts.null_count() > 0,
        }
    }

    /// Returns the text of a row, or `None` if it is null.
    #[inline]
    pub(super) fn text(&self, row: u32) -> Option<&str> {
        let row = row as usize;
        match self {
            Self::Texts(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::LargeTexts(texts) => texts.is_valid(row).then(|| texts.value(row)),
            Self::Views(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }
}
