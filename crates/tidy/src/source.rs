//! A Rust file, taken apart into code and comments.
//!
//! Both views have the lines and columns of the file, with everything that does not belong blanked
//! out, so that a word in a string or in a comment is not taken for code, nor the other way round.

/// A Rust file of the workspace.
pub struct Source {
    /// Where it is, relative to the workspace.
    pub path: String,
    /// Its text.
    pub text: String,
    code: String,
    comments: String,
}

impl Source {
    /// Takes a file apart.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments) = Splitter::new(text).split();
        Self { path: path.to_owned(), text: text.to_owned(), code, comments }
    }

    /// The lines of code, numbered from one; comments and the contents of strings are blank.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.code)
    }

    /// The comments, numbered from one; everything else is blank.
    pub fn comment_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        numbered(&self.comments)
    }

    /// Whether a comment stands on this line or on the one above it.
    pub fn has_comment_at(&self, line: usize) -> bool {
        self.comment_lines()
            .any(|(number, text)| (number == line || number + 1 == line) && !text.trim().is_empty())
    }

    /// The folder of the crate it belongs to: `crates/<folder>/…`.
    pub fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the whole file is a test, a benchmark or their fixture.
    pub fn is_test_file(&self) -> bool {
        let beside = self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs");
        beside || ["/tests/", "/benches/"].iter().any(|folder| self.path.contains(folder))
    }

    /// The lines of code that ship: not a test file, and above the file's `#[cfg(test)] mod … {`.
    pub fn production_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test_file() { 0 } else { self.first_test_line() };
        self.code_lines().take_while(move |(number, _)| *number < end)
    }

    fn first_test_line(&self) -> usize {
        let lines: Vec<&str> = self.code.lines().collect();
        lines
            .windows(2)
            .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_end().ends_with('{'))
            .map_or(usize::MAX, |index| index + 1)
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

/// Goes over a file once, writing each character to one view and a blank to the other.
struct Splitter {
    characters: Vec<char>,
    position: usize,
    code: String,
    comments: String,
}

impl Splitter {
    fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        Self { characters, position: 0, code: String::new(), comments: String::new() }
    }

    fn split(mut self) -> (String, String) {
        while let Some(character) = self.at(0) {
            match (character, self.at(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('\'', _) => self.character_or_lifetime(),
                _ => self.take_code(),
            }
        }
        (self.code, self.comments)
    }

    fn at(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn take_code(&mut self) {
        self.take(|code, _, character| code.push(character));
    }

    fn take_comment(&mut self) {
        self.take(|_, comments, character| comments.push(character));
    }

    fn take_blank(&mut self) {
        self.take(|_, _, _| {});
    }

    /// Moves on by one character; both views get a blank or a line break where `write` adds none.
    fn take(&mut self, write: impl Fn(&mut String, &mut String, char)) {
        let Some(character) = self.at(0) else { return };
        self.position += 1;
        if character == '\n' {
            self.code.push('\n');
            self.comments.push('\n');
            return;
        }
        let lengths = (self.code.len(), self.comments.len());
        write(&mut self.code, &mut self.comments, character);
        if self.code.len() == lengths.0 {
            self.code.push(' ');
        }
        if self.comments.len() == lengths.1 {
            self.comments.push(' ');
        }
    }

    fn line_comment(&mut self) {
        while self.at(0).is_some_and(|character| character != '\n') {
            self.take_comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.at(0), self.at(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.take_comment();
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.take_comment();
                }
                (None, _) => return,
                _ => {}
            }
            self.take_comment();
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let hashes = self.raw_hashes();
        self.take_code();
        while let Some(character) = self.at(0) {
            match (character, hashes) {
                ('\\', None) => self.take_blank(),
                ('"', None) => return self.take_code(),
                ('"', Some(count)) if (1..=count).all(|ahead| self.at(ahead) == Some('#')) => {
                    return self.take_code();
                }
                _ => {}
            }
            self.take_blank();
        }
    }

    /// How many `#` belong to the raw string that begins here; nothing if it is not a raw one.
    fn raw_hashes(&self) -> Option<usize> {
        let before = &self.characters[..self.position];
        let count = before.iter().rev().take_while(|character| **character == '#').count();
        (before.iter().rev().nth(count) == Some(&'r')).then_some(count)
    }

    fn character_or_lifetime(&mut self) {
        self.take_code();
        if self.at(0) == Some('\\') {
            self.take_blank();
            self.take_blank();
            while self.at(0).is_some_and(|character| character != '\'') {
                self.take_blank();
            }
            self.take_code();
        } else if self.at(1) == Some('\'') {
            self.take_blank();
            self.take_code();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn views(text: &str) -> (String, String) {
        let source = Source::new("crates/x/src/y.rs", text);
        (source.code, source.comments)
    }

    #[test]
    fn a_word_in_a_string_is_not_code() {
        let (code, _) = views("let a = \"HashMap \\\" HashMap\"; let b = r#\"Hash\"Map\"#; c();");
        assert!(!code.contains("Hash"));
        assert!(!code.contains("Map"));
        assert!(code.ends_with("c();"));
    }

    #[test]
    fn a_word_in_a_comment_is_not_code() {
        let (code, comments) = views("a(); // HashMap\n/* b /* c */ HashSet */ d();");
        assert_eq!(code.trim_end(), format!("a();{}\n{} d();", " ".repeat(11), " ".repeat(23)));
        assert!(comments.contains("// HashMap"));
        assert!(comments.contains("HashSet */"));
    }

    #[test]
    fn a_quote_as_a_character_opens_no_string() {
        let (code, _) = views(r"match c { '\'' | '\\' | '\u{22}' | '0' => f::<'static>() }");
        assert!(code.contains("f::<'static>() }"));
        let (code, comments) = views("if c == '\"' { a() } // b");
        assert!(code.contains("{ a() }"));
        assert!(comments.contains("// b"));
    }

    #[test]
    fn production_code_ends_where_the_tests_begin() {
        let source =
            Source::new("crates/x/src/y.rs", "a();\n#[cfg(test)]\nmod tests {\n  b();\n}\n");
        assert_eq!(source.production_lines().map(|(_, line)| line).collect::<Vec<_>>(), ["a();"]);
        let source = Source::new("crates/x/src/y.rs", "#[cfg(test)]\nmod tests;\na();\n");
        assert_eq!(source.production_lines().count(), 3);
        let source = Source::new("crates/x/src/y/tests.rs", "a();\n");
        assert_eq!(source.production_lines().count(), 0);
    }
}
