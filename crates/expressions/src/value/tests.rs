//! Values: what goes in comes out.

use super::*;

#[test]
fn a_text_round_trips() {
    for text in ["null", "[1,2.50,\"a\\n\",{\"b\":true}]", "123456789012345678901234567890"] {
        assert_eq!(to_text(&parse(text).unwrap()), text);
    }
}
