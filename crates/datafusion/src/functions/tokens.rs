//! The similarity of two texts as sets of words, or of runs of characters.

use std::sync::Arc;

use annulus_join::{SetMeasure, TokenSimilarity, Tokens};
use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array},
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::{cast::as_string_view_array, exec_err},
    error::Result,
    functions::utils::make_scalar_function,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};

/// `word_jaccard(a, b)`, `ngram_jaccard(a, b, n)` and others: the similarity of two texts as sets of tokens. Null
/// if an argument is null.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenFunction {
    name: &'static str,
    measure: SetMeasure,
    /// Whether tokens are runs of characters, whose length is the third argument.
    has_length: bool,
    signature: Signature,
}

const FUNCTIONS: [(&str, SetMeasure, bool); 4] = [
    ("word_jaccard", SetMeasure::Jaccard, false),
    ("word_cosine", SetMeasure::Cosine, false),
    ("ngram_jaccard", SetMeasure::Jaccard, true),
    ("ngram_cosine", SetMeasure::Cosine, true),
];

impl TokenFunction {
    /// Returns all functions.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        FUNCTIONS.into_iter().map(|(name, measure, has_length)| {
            let mut types = vec![DataType::Utf8View; 2];
            types.extend(has_length.then_some(DataType::Int64));
            let signature = Signature::new(TypeSignature::Exact(types), Volatility::Immutable);
            Self { name, measure, has_length, signature }
        })
    }

    /// Returns the similarity that a function of this name computes, if there is one. `length` is its third
    /// argument.
    pub(crate) fn similarity(name: &str, length: Option<i64>, least: f64) -> Option<TokenSimilarity> {
        let &(_, measure, has_length) = FUNCTIONS.iter().find(|function| function.0 == name)?;
        Some(TokenSimilarity { tokens: tokens(has_length, length)?, measure, least })
    }
}

/// Returns the tokens of a function; `None` if the length of its runs is missing, or less than 1.
fn tokens(has_length: bool, length: Option<i64>) -> Option<Tokens> {
    if !has_length {
        return Some(Tokens::Words);
    }
    usize::try_from(length?).ok().filter(|&length| length > 0).map(Tokens::Grams)
}

impl ScalarUDFImpl for TokenFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|columns| self.similarities(columns), Vec::new())(&args.args)
    }
}

impl TokenFunction {
    fn similarities(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let (a, b) = (as_string_view_array(&columns[0])?, as_string_view_array(&columns[1])?);
        let mut values = Float64Array::builder(a.len());
        for row in 0..a.len() {
            let is_null = columns.iter().any(|column| column.is_null(row));
            let length = columns.get(2).map(|lengths| lengths.as_primitive::<Int64Type>().value(row));
            match tokens(self.has_length, length) {
                _ if is_null => values.append_null(),
                Some(tokens) => {
                    let similarity = TokenSimilarity { tokens, measure: self.measure, least: 0.0 };
                    values.append_value(similarity.of_texts(a.value(row), b.value(row)));
                }
                None => return exec_err!("{} takes a length of 1 or more, and got {}", self.name, length.unwrap_or(0)),
            }
        }
        Ok(Arc::new(values.finish()))
    }
}
