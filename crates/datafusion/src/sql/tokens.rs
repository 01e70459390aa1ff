//! The words of `NEAREST`, which the parser does not know.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// The function that stands for the words in a parsed statement: `nearest_rows(k, 'distance') = expr`.
pub(super) const NEAREST_ROWS: &str = "nearest_rows";

/// Returns the tokens of a statement with each `[EXACT | APPROX] NEAREST [k] BY {DISTANCE | SIMILARITY} expr` as
/// a condition `ON nearest_rows(k, 'distance') = expr`, which [`nest_joins`](super::nest_joins) and the planners
/// of the session know. Returns `None` if there is none.
pub fn nearest_as_condition(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let meant: Vec<usize> = (0..tokens.len()).filter(|&index| !is_blank(&tokens[index].token)).collect();
    let mut replaced: Vec<TokenWithSpan> = Vec::new();
    let (mut copied, mut place) = (0, 0);
    while place < meant.len() {
        let rest: Vec<&Token> = meant[place..].iter().take(5).map(|&index| &tokens[index].token).collect();
        let Some(nearest) = Nearest::from_tokens(&rest) else {
            place += 1;
            continue;
        };
        let length = nearest.length;
        let (first, last) = (meant[place], meant[place + length - 1]);
        replaced.extend_from_slice(&tokens[copied..first]);
        let span = tokens[first].span;
        replaced.extend(nearest.condition().map(|token| TokenWithSpan::new(token, span)));
        copied = last + 1;
        place += length;
    }
    if copied == 0 {
        return None;
    }
    replaced.extend_from_slice(&tokens[copied..]);
    Some(replaced)
}

struct Nearest {
    k: Token,
    /// The word behind `BY`, in lower case.
    order: String,
    /// The number of tokens.
    length: usize,
}

impl Nearest {
    /// Returns what the first tokens say, if they are such words.
    fn from_tokens(tokens: &[&Token]) -> Option<Self> {
        // As in DuckDB, the first word may be left out.
        let rest = match tokens {
            [how, rest @ ..] if word(how, &["exact", "approx"]).is_some() => rest,
            rest => rest,
        };
        let [nearest, rest @ ..] = rest else { return None };
        word(nearest, &["nearest"])?;
        let (k, rest) = match rest {
            [k @ Token::Number(..), rest @ ..] => ((*k).clone(), rest),
            rest => (Token::Number("1".to_owned(), false), rest),
        };
        let [by, order, ..] = rest else { return None };
        word(by, &["by"])?;
        let order = word(order, &["distance", "similarity"])?;
        Some(Self { k, order, length: tokens.len() - rest.len() + 2 })
    }

    fn condition(self) -> [Token; 9] {
        [
            Token::make_keyword("ON"),
            Token::Whitespace(Whitespace::Space),
            Token::make_word(NEAREST_ROWS, None),
            Token::LParen,
            self.k,
            Token::Comma,
            Token::SingleQuotedString(self.order),
            Token::RParen,
            Token::Eq,
        ]
    }
}

/// Returns the word of a token in lower case, if it is one of these.
fn word(token: &Token, words: &[&str]) -> Option<String> {
    let Token::Word(word) = token else { return None };
    let text = word.value.to_lowercase();
    (word.quote_style.is_none() && words.contains(&text.as_str())).then_some(text)
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}
