//! The similarity of two texts as sets of words, or of runs of characters.

use std::sync::Arc;

use annulus_join::{SetMeasure, TokenSimilarity, Tokens};
use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, StringViewArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::exec_err,
    error::Result,
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
        let tokens =
            if has_length { Tokens::Grams(usize::try_from(length?).ok().filter(|&n| n > 0)?) } else { Tokens::Words };
        Some(TokenSimilarity { tokens, measure, least })
    }
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
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let columns = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let text = |index: usize| -> Result<StringViewArray> {
            Ok(cast(&columns[index], &DataType::Utf8View)?.as_string_view().clone())
        };
        let (a, b) = (text(0)?, text(1)?);
        let mut values = Float64Array::builder(rows);
        for row in 0..rows {
            let is_null = columns.iter().any(|column| column.is_null(row));
            let length = columns.get(2).map(|lengths| lengths.as_primitive::<Int64Type>().value(row));
            match Self::similarity(self.name, length, 0.0) {
                _ if is_null => values.append_null(),
                Some(similarity) => values.append_value(similarity.of_texts(a.value(row), b.value(row))),
                None => return exec_err!("{} takes a length of 1 or more, and got {}", self.name, length.unwrap_or(0)),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(values.finish())))
    }
}
