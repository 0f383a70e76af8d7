//! JSON text to values: strict, with a bounded depth, and with every digit of a number kept.
//!
//! jaq's own reader accepts a superset of JSON (comments, `NaN`, keys that are not texts) and follows
//! any depth by recursion; what comes from outside must be JSON and nothing else.

use jaq_json::{Map, Num};

use super::{DEPTH_MAX, Value};

/// How long a JSON text may be. A value takes up to about ten times as much memory as its text.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many characters a number may have. Arithmetic on digits takes more than linear time.
const NUMBER_BYTES_MAX: usize = 1_000;

/// The text is not JSON, or is more than we take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem} at byte {offset}")]
pub struct ParseError {
    /// What is wrong.
    pub problem: &'static str,
    /// Where, in bytes from the start of the text.
    pub offset: usize,
}

/// Reads exactly one JSON value.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Value, ParseError> {
    let text = text.as_ref();
    let mut reader = Reader { text, at: 0 };
    if text.len() > TEXT_BYTES_MAX {
        return reader.fail("a JSON text of more than 16 MiB");
    }
    let value = reader.value(0)?;
    reader.space();
    match reader.peek() {
        None => Ok(value),
        Some(_) => reader.fail("something follows the JSON value"),
    }
}

/// The number that this text, which must be a JSON number, stands for.
pub(super) fn number(text: &str) -> Value {
    let whole = Num::from_str_radix(text, 10);
    Value::Num(whole.unwrap_or_else(|| Num::Dec(std::sync::Arc::new(text.to_owned()))))
}

/// Whether a text is a number as JSON writes it.
pub(super) fn is_number(text: &str) -> bool {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    reader.number().is_ok() && reader.at == text.len()
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, problem: &'static str) -> Result<T, ParseError> {
        Err(ParseError { problem, offset: self.at })
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > DEPTH_MAX {
            return self.fail("arrays and objects are nested more than 256 deep");
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::from),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => self.fail("expected a JSON value"),
            None => self.fail("the text ends where a JSON value was expected"),
        }
    }

    fn word(&mut self, word: &'static str, value: Value) -> Result<Value, ParseError> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return self.fail("expected a JSON value");
        }
        self.at += word.len();
        Ok(value)
    }

    /// Whether a list goes on after one of its items.
    fn more(&mut self, close: u8) -> Result<bool, ParseError> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.fail("expected a comma or the closing bracket"),
        }
    }

    /// Whether the list just opened is empty; then its end is consumed.
    fn is_empty(&mut self, close: u8) -> bool {
        self.at += 1;
        self.space();
        let empty = self.peek() == Some(close);
        self.at += usize::from(empty);
        empty
    }

    fn array(&mut self, depth: usize) -> Result<Value, ParseError> {
        let mut elements = Vec::new();
        let mut more = !self.is_empty(b']');
        while more {
            elements.push(self.value(depth + 1)?);
            more = self.more(b']')?;
        }
        Ok(elements.into_iter().collect())
    }

    fn object(&mut self, depth: usize) -> Result<Value, ParseError> {
        let mut members = Map::default();
        let mut more = !self.is_empty(b'}');
        while more {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("expected the name of a member in quotes");
            }
            let name = Value::from(self.string()?);
            self.space();
            if self.peek() != Some(b':') {
                return self.fail("expected a colon");
            }
            self.at += 1;
            members.insert(name, self.value(depth + 1)?);
            more = self.more(b'}')?;
        }
        Ok(Value::obj(members))
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { self.fail("expected a digit") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value, ParseError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return self.fail("a number must not start with zero");
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        if self.at - start > NUMBER_BYTES_MAX {
            return self.fail("a number of more than 1000 characters");
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).expect("digits are ASCII");
        Ok(number(text))
    }

    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=31));
            let plain = plain.count();
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => text.extend(self.escape()?.encode_utf8(&mut [0; 4]).bytes()),
                Some(_) => return self.fail("a control character in a string must be escaped"),
                None => return self.fail("the text ends inside a string"),
            }
        }
        self.at += 1;
        String::from_utf8(text).or_else(|_| self.fail("a string before here is not UTF-8"))
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        self.at += 1;
        let Some(kind) = self.peek() else { return self.fail("the text ends inside a string") };
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return self.fail("an unknown escape sequence"),
        })
    }

    /// The character of one `\u` escape, or of two that form a surrogate pair. A lone surrogate
    /// stands for no character and becomes the replacement character.
    fn code_point(&mut self) -> Result<char, ParseError> {
        let first = self.hexadecimal()?;
        if (0xD800..0xDC00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hexadecimal()?;
            if (0xDC00..0xE000).contains(&second) {
                let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hexadecimal(&mut self) -> Result<u32, ParseError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return self.fail("expected four hexadecimal digits") };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}
