//! The tokenizer and parser of conditions.

use super::{Columns, Comparison, ConditionError, Operator, is_key, is_reserved};

/// Every operator symbol; the longer of two with a common start comes first.
const OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">", Operator::Above),
    ("<", Operator::Below),
    ("=", Operator::Equal),
];

/// The number of characters of the input that an error quotes.
const MAX_SHOWN: usize = 64;

/// Parses each comparison of a text on its own: one that is invalid ends at the next joiner.
pub(super) fn comparisons(text: &str) -> impl Iterator<Item = Result<Comparison, ConditionError>> {
    let mut parser = Parser { tokens: tokens(text), next: 0 };
    let mut more = true;
    std::iter::from_fn(move || {
        let comparison = more.then(|| parser.comparison())?;
        more = parser.skip_joiner();
        Some(comparison)
    })
}

/// Whether a value reads back as itself without quotes.
pub(super) fn is_word(value: &str) -> bool {
    let mut tokens = tokens(value).into_iter().map(|token| token.kind);
    matches!((tokens.next(), tokens.next()), (Some(Kind::Word(word)), Some(Kind::End)) if word == value)
        && !is_reserved(value)
}

/// Part of the input, quoted and cut to length for an error message.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    if cut.len() < text.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
}

struct Token<'t> {
    kind: Kind<'t>,
    text: &'t str,
    column: usize,
}

#[derive(PartialEq)]
enum Kind<'t> {
    Word(&'t str),
    /// Without its quotes.
    Quoted(String),
    Operator(Operator),
    Joiner,
    /// A quote that is never closed; the text after it is tokenized as if it were not there.
    Unclosed,
    /// The end of the text, always the last token.
    End,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut column = 1;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = token(rest, first);
        let (text, after) = rest.split_at(length);
        if let Some(kind) = kind {
            tokens.push(Token { kind, text, column });
        }
        column += text.chars().count();
        rest = after;
    }
    tokens.push(Token { kind: Kind::End, text: "", column });
    tokens
}

/// The token at the start of the text (`None` for white space) and its length in bytes.
fn token(rest: &str, first: char) -> (Option<Kind<'_>>, usize) {
    let (kind, length) = match first {
        _ if first.is_whitespace() => return (None, first.len_utf8()),
        ',' => (Kind::Joiner, 1),
        '\'' | '"' => quoted(rest, first).unwrap_or((Kind::Unclosed, 1)),
        _ => match operator(rest) {
            Some((written, operator)) => (Kind::Operator(operator), written.len()),
            None => word(rest),
        },
    };
    (Some(kind), length)
}

fn operator(rest: &str) -> Option<(&'static str, Operator)> {
    OPERATORS.into_iter().find(|(written, _)| rest.starts_with(written))
}

fn word(rest: &str) -> (Kind<'_>, usize) {
    let ends = |(at, letter): &(usize, char)| {
        letter.is_whitespace() || *letter == ',' || operator(&rest[*at..]).is_some()
    };
    let length = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at);
    let word = &rest[..length];
    let kind = if word.eq_ignore_ascii_case("and") { Kind::Joiner } else { Kind::Word(word) };
    (kind, length)
}

fn quoted(rest: &str, quote: char) -> Option<(Kind<'_>, usize)> {
    let mut value = String::new();
    let mut letters = rest.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
            return Some((Kind::Quoted(value), at + 1));
        }
        value.push(letter);
    }
    None
}

struct Parser<'t> {
    tokens: Vec<Token<'t>>,
    next: usize,
}

impl Parser<'_> {
    /// Parses the comparison up to the next joiner or the end.
    fn comparison(&mut self) -> Result<Comparison, ConditionError> {
        let key_at = self.column();
        let key = match self.kind() {
            Kind::Word(word) if is_key(word) => (*word).to_owned(),
            Kind::Word(word) if !is_reserved(word) => {
                let rule = "1 to 64 letters, digits and underscores, at least one of them a letter";
                return Err(self.error(format!("{} cannot be the key of a signal: {rule}", shown(word))));
            }
            _ => return Err(self.expected("the key of a signal")),
        };
        self.next += 1;

        let operator_at = self.column();
        let Kind::Operator(operator) = *self.kind() else {
            return Err(self.expected("an operator (>, >=, <, <=, = or !=)"));
        };
        self.next += 1;

        let value_at = self.column();
        let value = match self.kind() {
            Kind::Word(word) if !is_reserved(word) => (*word).to_owned(),
            Kind::Quoted(value) => value.clone(),
            _ => return Err(self.expected("a value")),
        };
        self.next += 1;

        match self.kind() {
            Kind::Joiner | Kind::End => {
                let columns = Columns { key: key_at, operator: operator_at, value: value_at };
                Ok(Comparison { key, operator, value, columns })
            }
            _ => Err(self.expected("`and` or a comma (a value of several words needs quotes)")),
        }
    }

    /// Skips to the token after the next joiner; false if there is none.
    fn skip_joiner(&mut self) -> bool {
        while !matches!(self.kind(), Kind::Joiner | Kind::End) {
            self.next += 1;
        }
        let found = *self.kind() == Kind::Joiner;
        self.next += usize::from(found);
        found
    }

    // The parser never advances past the `End` token, so there always is a next one.
    fn kind(&self) -> &Kind<'_> {
        &self.tokens[self.next].kind
    }

    fn column(&self) -> usize {
        self.tokens[self.next].column
    }

    fn expected(&self, what: &str) -> ConditionError {
        let found = self.tokens[self.next].text;
        self.error(match self.kind() {
            Kind::End => format!("expected {what}, but the text ends here"),
            Kind::Unclosed => "this quote is never closed".to_owned(),
            Kind::Word(word) if is_reserved(word) => {
                format!(
                    "there is no {}: comparisons are joined by `and` or a comma, and all must hold",
                    shown(word)
                )
            }
            _ => format!("expected {what}, found {}", shown(found)),
        })
    }

    fn error(&self, message: String) -> ConditionError {
        ConditionError { message, column: self.column() }
    }
}
