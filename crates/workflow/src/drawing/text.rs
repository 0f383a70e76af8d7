//! How wide text is, near enough, and what of it fits.
//!
//! Nobody knows which font a picture is shown with. The widths are those of DejaVu Sans, one of
//! the widest that browsers and converters fall back to, so text in any other font has room left.

/// A size of text in a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Names of tasks: 13 pixels, bold.
    Name,
    /// Everything below a name: 11 pixels.
    Note,
}

impl Size {
    /// Pixels per thousandth of the font's size, times a thousand; bold text runs wider.
    const fn scale(self) -> u64 {
        match self {
            Self::Name => 14_600,
            Self::Note => 11_000,
        }
    }
}

/// The width of a text in pixels.
pub(super) fn width(text: &str, size: Size) -> i32 {
    let thousandths: u64 = text.chars().map(advance).sum();
    i32::try_from(thousandths * size.scale() / 1_000_000).unwrap_or(i32::MAX) + 1
}

/// As much of a text as fits, with an ellipsis where something was left out.
pub(super) fn fit(text: &str, size: Size, pixels: i32) -> String {
    if width(text, size) <= pixels {
        return text.to_owned();
    }
    let mut kept = String::new();
    for character in text.chars() {
        let longer = format!("{kept}{character}");
        if pixels < width(&format!("{longer}…"), size) {
            break;
        }
        kept = longer;
    }
    format!("{}…", kept.trim_end())
}

/// Thousandths of the font's size that a character takes.
const fn advance(character: char) -> u64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '\'' | '|' | '.' | ',' | ':' | ';' | ' ' | '!' => 340,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '\\' | '"' | '-' => 420,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1_000,
        'A'..='Z' | '$' | '&' | '_' => 720,
        '+' | '<' | '>' | '=' | '~' | '→' | '#' => 840,
        '\u{0000}'..='\u{02ff}' => 640,
        _ => 1_000,
    }
}

/// Text as it is written between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write control characters.
            character if character.is_control() => escaped.push(' '),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{Size, escape, fit, width};

    #[test]
    fn keeps_what_fits_and_says_when_something_is_left_out() {
        assert_eq!(fit("short", Size::Note, 200), "short");
        let cut = fit("a very long text that does not fit", Size::Note, 100);
        assert!(cut.ends_with('…'));
        assert!(width(&cut, Size::Note) <= 100);
        assert!(90 <= width(&cut, Size::Note), "{cut} leaves room unused");
    }

    #[test]
    fn leaves_no_markup_in_text() {
        assert_eq!(escape("a < \"b\" & c\n>"), "a &lt; &quot;b&quot; &amp; c &gt;");
    }
}
