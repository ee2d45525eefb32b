//! The tokenizer and parser of conditions.

use super::window::{EventWindow, duration};
use super::{
    Columns, Comparison, ConditionError, MAX_DEPTH, Node, Operator, Skipped, Strictness, Subject, is_key,
    is_reserved,
};

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

/// The word that starts a count of events.
const EVENTS: &str = "events";
/// The number of characters of the input that an error quotes.
const MAX_SHOWN: usize = 64;
/// The number of skipped parts that are listed.
const MAX_SKIPPED: usize = 50;

/// What a text says.
pub(super) struct Parsed {
    /// The condition; none if no part of it parses.
    pub(super) root: Option<Node>,
    /// The parts that do not parse, in order; of a rule's condition only the first.
    pub(super) skipped: Vec<Skipped>,
    /// Whether there is an operator in it.
    pub(super) has_operator: bool,
}

/// Parses a text. A part that is invalid ends at the next joiner. The work and the depth of recursion are bounded: by the
/// length of the text, and by [`MAX_DEPTH`].
pub(super) fn parse(text: &str, strictness: Strictness) -> Parsed {
    let tokens = tokens(text);
    let has_operator = tokens.iter().any(|token| matches!(token.kind, Kind::Operator(_)));
    let mut parser = Parser { text, strictness, tokens, next: 0, groups: 0, depth: 0, skipped: Vec::new() };
    let root = parser.any();
    Parsed { root, skipped: parser.skipped, has_operator }
}

/// A value or a name as it can stand in a condition.
pub(super) fn quoted_if_needed(value: &str) -> String {
    if is_word(value) { value.to_owned() } else { format!("\"{}\"", value.replace('"', "\"\"")) }
}

/// Whether a value reads back as itself without quotes.
fn is_word(value: &str) -> bool {
    let mut tokens = tokens(value).into_iter().map(|token| token.kind);
    matches!((tokens.next(), tokens.next()), (Some(Kind::Word(word)), Some(Kind::End)) if word == value)
}

/// Part of the input, quoted and cut to length for an error message.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    if cut.len() < text.len() { format!("`{cut}…`") } else { format!("`{cut}`") }
}

struct Token<'t> {
    kind: Kind<'t>,
    text: &'t str,
    /// In characters, from 1.
    column: usize,
    /// In bytes, from 0.
    start: usize,
}

#[derive(PartialEq)]
enum Kind<'t> {
    Word(&'t str),
    /// Without its quotes.
    Quoted(String),
    Operator(Operator),
    /// `and`, or a comma.
    And,
    Or,
    Not,
    Open,
    Close,
    /// A quote that is never closed; the text after it is tokenized as if it were not there.
    Unclosed,
    /// The end of the text, always the last token.
    End,
}

/// Where a word stands, which decides how it treats parentheses.
#[derive(Clone, Copy)]
enum Position {
    /// Anywhere but after an operator: it ends before a parenthesis.
    Plain,
    /// After an operator, outside of parentheses: it may contain any.
    Value,
    /// After an operator, within parentheses: it ends before one that closes more than the word has opened.
    GroupedValue,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut start, mut column, mut open) = (0, 1, 0_usize);
    while let Some(first) = text[start..].chars().next() {
        let position = match tokens.last().map(|token| &token.kind) {
            Some(Kind::Operator(_)) if open > 0 => Position::GroupedValue,
            Some(Kind::Operator(_)) => Position::Value,
            _ => Position::Plain,
        };
        let (kind, length) = token(&text[start..], first, position);
        let written = &text[start..start + length];
        if let Some(kind) = kind {
            match kind {
                Kind::Open => open += 1,
                Kind::Close => open = open.saturating_sub(1),
                _ => {}
            }
            tokens.push(Token { kind, text: written, column, start });
        }
        column += written.chars().count();
        start += length;
    }
    tokens.push(Token { kind: Kind::End, text: "", column, start });
    tokens
}

/// The token at the start of the text (`None` for white space) and its length in bytes.
fn token(rest: &str, first: char, position: Position) -> (Option<Kind<'_>>, usize) {
    let (kind, length) = match (first, position) {
        _ if first.is_whitespace() => return (None, first.len_utf8()),
        (',', _) => (Kind::And, 1),
        ('(', Position::Plain) => (Kind::Open, 1),
        (')', Position::Plain | Position::GroupedValue) => (Kind::Close, 1),
        ('\'' | '"', _) => quoted(rest, first).unwrap_or((Kind::Unclosed, 1)),
        _ => match operator(rest) {
            Some((written, operator)) => (Kind::Operator(operator), written.len()),
            None => word(rest, position),
        },
    };
    (Some(kind), length)
}

fn operator(rest: &str) -> Option<(&'static str, Operator)> {
    OPERATORS.into_iter().find(|(written, _)| rest.starts_with(written))
}

fn word(rest: &str, position: Position) -> (Kind<'_>, usize) {
    let mut open = 0_usize;
    let mut ends = |(at, letter): &(usize, char)| match (letter, position) {
        ('(' | ')', Position::Plain) => true,
        ('(', Position::GroupedValue) => {
            open += 1;
            false
        }
        (')', Position::GroupedValue) => match open.checked_sub(1) {
            Some(fewer) => {
                open = fewer;
                false
            }
            None => true,
        },
        _ => letter.is_whitespace() || *letter == ',' || operator(&rest[*at..]).is_some(),
    };
    let length = rest.char_indices().find(|letter| ends(letter)).map_or(rest.len(), |(at, _)| at);
    let word = &rest[..length];
    let kind = match word {
        _ if word.eq_ignore_ascii_case("and") => Kind::And,
        _ if word.eq_ignore_ascii_case("or") => Kind::Or,
        _ if word.eq_ignore_ascii_case("not") => Kind::Not,
        _ => Kind::Word(word),
    };
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
    text: &'t str,
    strictness: Strictness,
    tokens: Vec<Token<'t>>,
    next: usize,
    /// The parentheses that are open.
    groups: usize,
    /// The parentheses and negations around the next token.
    depth: usize,
    skipped: Vec<Skipped>,
}

impl Parser<'_> {
    fn any(&mut self) -> Option<Node> {
        let mut parts = Vec::new();
        loop {
            parts.extend(self.all());
            if !self.take(&Kind::Or) {
                return Node::any_of(parts);
            }
        }
    }

    fn all(&mut self) -> Option<Node> {
        let mut parts = Vec::new();
        loop {
            parts.extend(self.part_or_skip());
            if !self.take(&Kind::And) {
                return Node::all_of(parts);
            }
        }
    }

    /// Parses a part, or skips to the next joiner if it is invalid.
    fn part_or_skip(&mut self) -> Option<Node> {
        let first = self.next;
        let part = self.part().and_then(|part| {
            if self.ends_part(self.next) {
                return Ok(part);
            }
            Err(self.expected("`and`, `or` or a comma (a value of several words needs quotes)"))
        });
        match part {
            Ok(part) => part,
            Err(error) => {
                while !self.ends_part(self.next) {
                    self.next += 1;
                }
                self.skip(first, error);
                None
            }
        }
    }

    /// A part; none if all that is in it was skipped.
    fn part(&mut self) -> Result<Option<Node>, ConditionError> {
        match self.kind() {
            Kind::Not | Kind::Open if self.depth == MAX_DEPTH => {
                let message = format!("parentheses and `not` are nested more than {MAX_DEPTH} deep");
                Err(self.error(message))
            }
            Kind::Not => {
                self.next += 1;
                self.depth += 1;
                let inner = self.part();
                self.depth -= 1;
                Ok(inner?.map(|inner| Node::Not(Box::new(inner))))
            }
            Kind::Open => {
                let opened = self.next;
                self.next += 1;
                (self.depth, self.groups) = (self.depth + 1, self.groups + 1);
                let inner = self.any();
                (self.depth, self.groups) = (self.depth - 1, self.groups - 1);
                if self.take(&Kind::Close) {
                    return Ok(inner);
                }
                // What is in it still counts in a query.
                let message = "this parenthesis is never closed".to_owned();
                self.skip(opened, ConditionError { message, column: self.tokens[opened].column });
                Ok(inner)
            }
            _ => Ok(Some(Node::Comparison(self.comparison()?))),
        }
    }

    fn comparison(&mut self) -> Result<Comparison, ConditionError> {
        let subject_at = self.column();
        let subject = self.subject()?;

        let operator_at = self.column();
        let Kind::Operator(operator) = *self.kind() else {
            return Err(self.expected("an operator (>, >=, <, <=, = or !=)"));
        };
        self.next += 1;

        let value_at = self.column();
        let value = match self.kind() {
            Kind::Word(word) => (*word).to_owned(),
            Kind::Quoted(value) => value.clone(),
            // A keyword is a value where a value alone makes sense.
            Kind::And | Kind::Or | Kind::Not
                if is_reserved(self.written()) && self.ends_part(self.next + 1) =>
            {
                self.written().to_owned()
            }
            _ => return Err(self.expected("a value")),
        };
        self.next += 1;
        let columns = Columns { subject: subject_at, operator: operator_at, value: value_at };
        Ok(Comparison { subject, operator, value, columns })
    }

    fn subject(&mut self) -> Result<Subject, ConditionError> {
        let key = match self.kind() {
            Kind::Word(word) if *word == EVENTS && self.tokens[self.next + 1].kind == Kind::Open => {
                self.next += 2;
                return Ok(Subject::Events(self.event_window()?));
            }
            Kind::Word(word) if is_key(word) => (*word).to_owned(),
            Kind::Word(word) => {
                let rule = "1 to 64 letters, digits and underscores, at least one of them a letter";
                return Err(self.error(format!("{} cannot be the key of a signal: {rule}", shown(word))));
            }
            _ => return Err(self.expected("the key of a signal")),
        };
        self.next += 1;
        Ok(Subject::Key(key))
    }

    /// Parses what follows `events(`.
    fn event_window(&mut self) -> Result<EventWindow, ConditionError> {
        let name = match self.kind() {
            Kind::Word("*") => None,
            Kind::Word(word) => Some((*word).to_owned()),
            Kind::Quoted(name) if !name.is_empty() => Some(name.clone()),
            _ => return Err(self.expected("the name of an event, or * for any")),
        };
        self.next += 1;
        if self.written() != "," {
            return Err(self.expected("a comma and a window such as 24h"));
        }
        self.next += 1;
        let window = match self.kind() {
            Kind::Word(word) => duration(word).filter(|window| !window.is_zero()),
            _ => None,
        };
        let Some(window) = window else {
            return Err(self.expected("a window such as 30s, 15m, 24h or 7d, at most 30d"));
        };
        self.next += 1;
        if !self.take(&Kind::Close) {
            return Err(self.expected("a closing parenthesis"));
        }
        Ok(EventWindow { name, window })
    }

    /// Whether a part may end before a token.
    fn ends_part(&self, token: usize) -> bool {
        match self.tokens[token].kind {
            Kind::And | Kind::Or | Kind::End => true,
            Kind::Close => self.groups > 0,
            _ => false,
        }
    }

    /// Notes what is skipped, from a token to before the next one. After the first error in a rule nothing is read.
    fn skip(&mut self, first: usize, error: ConditionError) {
        if self.skipped.len() < MAX_SKIPPED {
            let text = self.text[self.tokens[first].start..self.tokens[self.next].start].trim_end();
            let text = text.chars().take(MAX_SHOWN + 1).collect();
            self.skipped.push(Skipped { text, error });
        }
        if self.strictness == Strictness::Rule {
            self.next = self.tokens.len() - 1;
        }
    }

    fn take(&mut self, kind: &Kind<'_>) -> bool {
        let found = self.kind() == kind;
        self.next += usize::from(found);
        found
    }

    // The parser never advances past the `End` token, so there always is a next one.
    fn kind(&self) -> &Kind<'_> {
        &self.tokens[self.next].kind
    }

    fn written(&self) -> &str {
        self.tokens[self.next].text
    }

    fn column(&self) -> usize {
        self.tokens[self.next].column
    }

    fn expected(&self, what: &str) -> ConditionError {
        self.error(match self.kind() {
            Kind::End => format!("expected {what}, but the text ends here"),
            Kind::Unclosed => "this quote is never closed".to_owned(),
            _ => format!("expected {what}, found {}", shown(self.written())),
        })
    }

    fn error(&self, message: String) -> ConditionError {
        ConditionError { message, column: self.column() }
    }
}
