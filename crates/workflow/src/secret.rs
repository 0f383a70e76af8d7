//! Stand-ins for secrets: what expressions, journals and peers see instead of a secret.
//!
//! A stand-in names its secret in clear and carries a code that only the execution's salt makes, as
//! in `⟦secret:petstore.password:0123…⟧`. Whoever makes a call replaces the stand-ins whose code is
//! right by what they stand for; text that merely looks like one stays text. When an answer echoes
//! a secret, `Revealed` puts the stand-in back before the answer reaches an execution.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, Digester};

use crate::percent_encode;

const OPEN: &str = "⟦secret:";
const OPEN_BRACKET: char = '⟦';
const CLOSE: char = '⟧';

/// Hexadecimal digits of the code: 128 bits, as many as the salt has.
const CODE_DIGITS: usize = 32;

/// Longer things between the brackets are not taken for stand-ins.
const STAND_IN_BYTES_MAX: usize = 1024;

/// Shorter secrets are not searched for in answers: they would be found everywhere.
const MASKED_BYTES_MIN: usize = 4;

/// The stand-in for a field of a secret; the path is dotted, and empty for the whole secret.
pub fn stand_in(salt: &[u8; 16], name: &str, path: &str) -> String {
    let clear = clear_text(name, path);
    let code = code(salt, &clear);
    format!("{OPEN}{clear}:{code}{CLOSE}")
}

/// An object of stand-ins for paths in secrets: `$secrets` as expressions see it.
pub fn stand_in_object(salt: &[u8; 16], paths: &[(&str, Vec<&str>)]) -> Value {
    let whole: Vec<(Vec<&str>, String)> = paths
        .iter()
        .map(|(name, path)| {
            let segments = std::iter::once(*name).chain(path.iter().copied()).collect();
            (segments, stand_in(salt, name, &path.join(".")))
        })
        .collect();
    nested(&whole, 0)
}

/// `$secrets` as one expression sees it: stand-ins for the paths it reads. Documents whose
/// expressions do more than place a secret are rejected, so there is nothing for those.
pub fn stand_ins(salt: &[u8; 16], source: &str) -> Value {
    let paths = outlast_expressions::opaque_paths(source, "secrets").unwrap_or_default();
    let paths: Vec<(&str, Vec<&str>)> = paths
        .iter()
        .filter_map(|path| {
            let (name, fields) = path.split_first()?;
            Some((name.as_str(), fields.iter().map(String::as_str).collect()))
        })
        .collect();
    stand_in_object(salt, &paths)
}

/// One secret as an object of stand-ins for its fields.
pub fn stand_in_fields(salt: &[u8; 16], name: &str, fields: &[&str]) -> Value {
    value::object(fields.iter().map(|field| (*field, value::string(&stand_in(salt, name, field)))))
}

/// Where in a text something has the form of a stand-in, in order; its code may still be wrong.
pub fn find_stand_ins(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(OPEN).map(|at| from + at) {
        let inside = start + OPEN.len();
        // Looking no further than the next bracket keeps this linear, whatever the text.
        let bracket = text[inside..].find([OPEN_BRACKET, CLOSE]).map(|at| inside + at);
        from = inside;
        if let Some(bracket) = bracket
            && text[bracket..].starts_with(CLOSE)
        {
            let end = bracket + CLOSE.len_utf8();
            if has_form(&text[start..end]) {
                found.push(start..end);
                from = end;
            }
        }
    }
    found
}

/// The secret's name and path that a stand-in of this execution names; nothing for forgeries.
pub fn named_by(salt: &[u8; 16], stand_in: &str) -> Option<(String, String)> {
    let inside = stand_in.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    let (clear, given) = inside.rsplit_once(':')?;
    // Compared by digest: how long it takes tells nothing about which digits are right.
    if Digest::of(code(salt, clear).as_bytes()) != Digest::of(given.as_bytes()) {
        return None;
    }
    let (name, path) = clear.split_once('.').unwrap_or((clear, ""));
    Some((unescape(name), unescape(path)))
}

/// Replaces the stand-ins of this execution in a text by what `reveal` gives for them.
///
/// `reveal` gets the stand-in, the secret's name and the path. A text without any is not copied.
pub fn substitute<'a, E>(
    salt: &[u8; 16],
    text: &'a str,
    mut reveal: impl FnMut(&str, &str, &str) -> Result<String, E>,
) -> Result<Cow<'a, str>, E> {
    let mut revealed = String::new();
    let mut done = 0;
    for found in find_stand_ins(text) {
        let token = &text[found.clone()];
        let Some((name, path)) = named_by(salt, token) else { continue };
        revealed.push_str(&text[done..found.start]);
        revealed.push_str(&reveal(token, &name, &path)?);
        done = found.end;
    }
    if done == 0 {
        return Ok(Cow::Borrowed(text));
    }
    revealed.push_str(&text[done..]);
    Ok(Cow::Owned(revealed))
}

/// The secrets a call used, so that its answer can be cleaned of them.
#[derive(Clone, Default)]
pub struct Revealed {
    /// Secret text and what stands for it; longest first, so that no part of one stays behind.
    pairs: Vec<(String, String)>,
}

impl Revealed {
    /// Remembers a secret's text, or a text made from it, and its stand-in; also the forms in which
    /// texts usually travel: in JSON, in URIs, as base64.
    pub fn note(&mut self, text: &str, stand_in: &str) {
        let in_json = value::to_text(&value::string(text));
        self.note_form(text, stand_in);
        self.note_form(&in_json[1..in_json.len() - 1], stand_in);
        self.note_form(&percent_encode(text), stand_in);
        self.note_form(&STANDARD.encode(text), stand_in);
    }

    fn note_form(&mut self, text: &str, stand_in: &str) {
        let known = self.pairs.iter().any(|(known, _)| known == text);
        if known || text.len() < MASKED_BYTES_MIN {
            return;
        }
        let place = self.pairs.partition_point(|(other, _)| other.len() >= text.len());
        self.pairs.insert(place, (text.to_owned(), stand_in.to_owned()));
    }

    /// Whether nothing secret was used.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Puts stand-ins back into a text; those of this call that are there already are left alone.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.pairs.iter().any(|(secret, _)| text.contains(secret.as_str())) {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut done = 0;
        for token in find_stand_ins(text) {
            // Whoever answers can put a secret between the brackets of something that looks like one.
            if !self.pairs.iter().any(|(_, stand_in)| *stand_in == text[token.clone()]) {
                continue;
            }
            self.mask_plain(&text[done..token.start], &mut masked);
            masked.push_str(&text[token.clone()]);
            done = token.end;
        }
        self.mask_plain(&text[done..], &mut masked);
        Cow::Owned(masked)
    }

    /// Puts stand-ins back into bytes that may not be text.
    pub fn mask_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.is_empty() {
            return bytes;
        }
        let mut masked = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some((first, after)) = rest.split_first() {
            match self.pairs.iter().find(|(secret, _)| rest.starts_with(secret.as_bytes())) {
                Some((secret, stand_in)) => {
                    masked.extend_from_slice(stand_in.as_bytes());
                    rest = &rest[secret.len()..];
                }
                None => {
                    masked.push(*first);
                    rest = after;
                }
            }
        }
        masked
    }

    /// One pass, so that nothing is found inside a stand-in that was just put in.
    fn mask_plain(&self, text: &str, masked: &mut String) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.pairs.iter().find(|(secret, _)| rest.starts_with(secret.as_str())) {
                Some((secret, stand_in)) => {
                    masked.push_str(stand_in);
                    rest = &rest[secret.len()..];
                }
                None => {
                    masked.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
    }

    /// Puts stand-ins back into all texts and member names of a value, and for numbers that hold a
    /// secret's digits.
    pub fn mask_value(&self, value: Value) -> Value {
        if self.is_empty() {
            return value;
        }
        match &value {
            Value::TStr(bytes) => match self.mask(&String::from_utf8_lossy(bytes)) {
                Cow::Owned(masked) => value::string(&masked),
                Cow::Borrowed(_) => value,
            },
            Value::Num(_) => match self.mask(&value::to_text(&value)) {
                Cow::Owned(masked) => value::string(&masked),
                Cow::Borrowed(_) => value,
            },
            Value::Arr(items) => items.iter().map(|item| self.mask_value(item.clone())).collect(),
            Value::Obj(members) => Value::obj(
                members
                    .iter()
                    .map(|(name, member)| {
                        (self.mask_value(name.clone()), self.mask_value(member.clone()))
                    })
                    .collect(),
            ),
            _ => value,
        }
    }
}

impl std::fmt::Debug for Revealed {
    /// Never shows a secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.pairs.iter().map(|(_, stand_in)| stand_in)).finish()
    }
}

fn nested(paths: &[(Vec<&str>, String)], depth: usize) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for (segments, _) in paths {
        if let Some(name) = segments.get(depth)
            && !names.contains(name)
        {
            names.push(name);
        }
    }
    value::object(names.into_iter().map(|name| {
        let under: Vec<_> =
            paths.iter().filter(|(path, _)| path.get(depth) == Some(&name)).cloned().collect();
        // A secret used as a whole and by its fields shows its fields: they are the finer view.
        let leaf = under.iter().all(|(path, _)| path.len() == depth + 1);
        let member = if leaf { value::string(&under[0].1) } else { nested(&under, depth + 1) };
        (name, member)
    }))
}

fn clear_text(name: &str, path: &str) -> String {
    let name = escape(name, &['.']);
    if path.is_empty() { name } else { format!("{name}.{}", escape(path, &[])) }
}

fn code(salt: &[u8; 16], clear: &str) -> String {
    let digest = Digester::new("stand-in").field(salt).field(clear.as_bytes()).finish();
    let mut text = digest.to_string();
    text.truncate(CODE_DIGITS);
    text
}

fn has_form(text: &str) -> bool {
    let inside = &text[OPEN.len()..text.len() - CLOSE.len_utf8()];
    text.len() <= STAND_IN_BYTES_MAX
        && inside.rsplit_once(':').is_some_and(|(clear, code)| {
            !clear.is_empty()
                // Names are escaped when a stand-in is made: what has these was made by someone else.
                && !clear.contains(|c: char| c == ':' || c.is_control())
                && code.len() == CODE_DIGITS
                && code.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
}

fn escape(text: &str, also: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let special = matches!(character, '%' | '⟦' | '⟧' | ':') || also.contains(&character);
        if special || character.is_control() {
            escaped.push_str(&format!("%{:x};", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let (code, tail) = after.split_once(';').unwrap_or((after, ""));
        plain.extend(u32::from_str_radix(code, 16).ok().and_then(char::from_u32));
        rest = tail;
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SALT: [u8; 16] = [3; 16];

    fn reveal_all(text: &str) -> String {
        let reveal = |_: &str, name: &str, path: &str| Ok::<_, ()>(format!("<{name}|{path}>"));
        substitute(&SALT, text, reveal).unwrap().into_owned()
    }

    #[test]
    fn text_with_what_is_always_escaped_is_no_stand_in() {
        let code = "0".repeat(CODE_DIGITS);
        for clear in ["a\r\nb", "a:b", ""] {
            assert!(find_stand_ins(&format!("⟦secret:{clear}:{code}⟧")).is_empty(), "{clear:?}");
        }
        assert_eq!(find_stand_ins(&format!("⟦secret:a.b:{code}⟧")).len(), 1);
        assert_eq!(find_stand_ins(&stand_in(&[1; 16], "a:b\n", "c")).len(), 1);
    }

    #[test]
    fn a_stand_in_names_its_secret_in_clear() {
        let token = stand_in(&SALT, "petstore", "password");
        assert!(token.starts_with("⟦secret:petstore.password:"), "{token}");
        assert_eq!(reveal_all(&format!("a {token} b")), "a <petstore|password> b");
    }

    #[test]
    fn a_stand_in_of_another_execution_stays_text() {
        let foreign = stand_in(&[4; 16], "petstore", "password");
        assert_eq!(reveal_all(&foreign), foreign);
        assert_eq!(named_by(&SALT, &foreign), None);
    }

    #[test]
    fn forged_and_torn_stand_ins_stay_text() {
        let genuine = stand_in(&SALT, "a", "b");
        let renamed = genuine.replace("a.b", "a.c");
        let torn = &genuine[..genuine.len() - "⟧".len()];
        for text in [renamed.as_str(), torn, "⟦secret:a.b⟧", "⟦secret::00⟧", "⟦secret:", "⟧"]
        {
            assert_eq!(reveal_all(text), text);
        }
        assert_eq!(reveal_all(&format!("{torn}{genuine}")), format!("{torn}<a|b>"));
    }

    #[test]
    fn odd_names_and_paths_come_back_as_they_were() {
        for (name, path) in [("a.b", "c.d"), ("a:b%⟧", "⟦x:y"), ("plain", ""), ("a%2e;", "%")] {
            let token = stand_in(&SALT, name, path);
            let all = 0..token.len();
            assert_eq!(find_stand_ins(&token), std::slice::from_ref(&all));
            assert_eq!(named_by(&SALT, &token), Some((name.to_owned(), path.to_owned())));
        }
    }

    #[test]
    fn a_dot_in_the_name_is_not_a_dot_in_the_path() {
        assert_ne!(stand_in(&SALT, "a.b", ""), stand_in(&SALT, "a", "b"));
    }

    #[test]
    fn the_object_of_stand_ins_has_the_shape_of_the_secrets() {
        let object = stand_in_object(
            &SALT,
            &[("a", vec!["x", "y"]), ("a", vec!["z"]), ("b", vec![]), ("a", vec![])],
        );
        let expected = format!(
            r#"{{"a":{{"x":{{"y":"{}"}},"z":"{}"}},"b":"{}"}}"#,
            stand_in(&SALT, "a", "x.y"),
            stand_in(&SALT, "a", "z"),
            stand_in(&SALT, "b", ""),
        );
        assert_eq!(value::to_text(&object), expected);
        assert_eq!(
            value::to_text(&stand_in_fields(&SALT, "a", &["z"])),
            format!(r#"{{"z":"{}"}}"#, stand_in(&SALT, "a", "z"))
        );
    }

    #[test]
    fn masks_echoed_secrets_everywhere_in_a_value() {
        let mut revealed = Revealed::default();
        revealed.note("hunter2", "T1");
        revealed.note("hunter2-longer", "T2");
        revealed.note("12345678", "T3");
        let value = value::parse(
            r#"{"a": ["is hunter2-longer", 12345678, 7], "hunter2": {"b": "xhunter2x"}}"#,
        )
        .unwrap();
        assert_eq!(
            value::to_text(&revealed.mask_value(value)),
            r#"{"a":["is T2","T3",7],"T1":{"b":"xT1x"}}"#
        );
        assert_eq!(revealed.mask_bytes(b"\xffhunter2\xfe".to_vec()), b"\xffT1\xfe");
    }

    #[test]
    fn a_secret_that_is_a_word_of_a_stand_in_does_not_spoil_it() {
        let token = stand_in(&SALT, "store", "password");
        let mut revealed = Revealed::default();
        revealed.note("password", &token);
        revealed.note("secret", "T");
        let text = format!("{token} password secret");
        assert_eq!(revealed.mask(&text), format!("{token} {token} T"));
        assert_eq!(
            revealed.mask_bytes(b"\xffpassword".to_vec()),
            [b"\xff", token.as_bytes()].concat()
        );
    }

    #[test]
    fn a_secret_inside_what_looks_like_a_stand_in_is_masked() {
        let token = stand_in(&SALT, "store", "password");
        let mut revealed = Revealed::default();
        revealed.note("hunter2", &token);
        let code = "0".repeat(CODE_DIGITS);
        let masked = revealed.mask(&format!("⟦secret:hunter2:{code}⟧ {token}")).into_owned();
        assert_eq!(masked, format!("⟦secret:{token}:{code}⟧ {token}"));
    }

    #[test]
    fn a_flood_of_open_brackets_is_searched_in_one_pass() {
        // With a search to the end for each of them this would take minutes.
        assert!(find_stand_ins(&OPEN.repeat(200_000)).is_empty());
    }

    proptest! {
        #[test]
        fn every_stand_in_is_found_in_any_text(
            before in ".*", name in ".+", path in ".*", after in ".*",
        ) {
            let token = stand_in(&SALT, &name, &path);
            prop_assume!(token.len() <= STAND_IN_BYTES_MAX);
            let text = format!("{before}{token}{after}");
            let expected = format!("{before}<{name}|{path}>{after}");
            prop_assert_eq!(reveal_all(&text), expected);
        }

        #[test]
        fn text_from_outside_stays_as_it_is(text in "[⟦⟧secrt:a-f0-9.%]*") {
            prop_assert_eq!(reveal_all(&text), text);
        }

        #[test]
        fn no_secret_survives_masking(before in ".*", secret in "[a-zü \"%]{4,}", after in ".*") {
            let mut revealed = Revealed::default();
            revealed.note(&secret, "⟦#⟧");
            let masked = revealed.mask(&format!("{before}{secret}{after}")).into_owned();
            prop_assert!(!masked.contains(&secret), "{}", masked);
        }
    }

    #[test]
    fn knows_a_secret_in_the_forms_it_travels_in() {
        let mut revealed = Revealed::default();
        revealed.note("a \"b\" c", "T");
        for form in ["a \"b\" c", r#"a \"b\" c"#, "a%20%22b%22%20c", "YSAiYiIgYw=="] {
            assert_eq!(revealed.mask(&format!("<{form}>")), "<T>");
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let mut revealed = Revealed::default();
        revealed.note("hunter2", "T1");
        assert_eq!(format!("{revealed:?}"), r#"["T1", "T1"]"#);
    }
}
