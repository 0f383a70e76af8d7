//! URIs out of templates: RFC 6570 simple expansion with top-level names, percent-encoding, queries.
//!
//! Stand-ins for secrets pass through unencoded, so that whoever makes the call can find them; it
//! encodes the secret itself when it puts it in.

use outlast_expressions::{Value, value};

use super::build::scalar_text;
use crate::{Fault, FaultKind, secret};

/// Fills a URI template from the members of an object; what is missing or null is empty.
pub(super) fn expand(template: &str, input: &Value) -> Result<String, Fault> {
    let mut uri = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        uri.push_str(&encode(literal, is_uri_character));
        let Some((names, tail)) = tail.split_once('}') else {
            return Err(bad_template(template, "a `{` is never closed"));
        };
        uri.push_str(&expand_names(template, names, input)?);
        rest = tail;
    }
    uri.push_str(&encode(rest, is_uri_character));
    Ok(uri)
}

/// Adds query parameters; a list repeats its name, null leaves it out.
pub(super) fn with_query(mut uri: String, parameters: &[(String, String)]) -> String {
    let fragment = uri.find('#').map(|at| uri.split_off(at)).unwrap_or_default();
    for (name, text) in parameters {
        let separator = match uri.find('?') {
            None => "?",
            Some(_) if uri.ends_with(['?', '&']) => "",
            Some(_) => "&",
        };
        uri.push_str(separator);
        uri.push_str(&percent_encode(name));
        uri.push('=');
        uri.push_str(&percent_encode(text));
    }
    uri + &fragment
}

/// Encodes everything but unreserved characters and stand-ins for secrets.
pub fn percent_encode(text: &str) -> String {
    encode(text, is_unreserved)
}

fn expand_names(template: &str, names: &str, input: &Value) -> Result<String, Fault> {
    let mut texts = Vec::new();
    for name in names.split(',') {
        if name.is_empty() || !name.chars().all(is_name_character) {
            let what = format!("`{{{names}}}` is not a plain name or a list of plain names");
            return Err(bad_template(template, &what));
        }
        texts.extend(text_of_member(template, name, input)?);
    }
    Ok(texts.join(","))
}

fn text_of_member(template: &str, name: &str, input: &Value) -> Result<Option<String>, Fault> {
    match value::get(input, name) {
        None | Some(Value::Null) => Ok(None),
        Some(member) => match scalar_text(member) {
            Some(text) => Ok(Some(percent_encode(&text))),
            None => {
                let detail = format!(
                    "`{name}` in the endpoint `{template}` is a list or an object; \
                     a URI takes texts, numbers and booleans only"
                );
                Err(Fault::new(FaultKind::Expression, "Endpoint cannot be filled in", detail))
            }
        },
    }
}

fn bad_template(template: &str, what: &str) -> Fault {
    let detail = format!("{what} in the endpoint `{template}`");
    Fault::new(FaultKind::Configuration, "Endpoint is not a URI template", detail)
}

fn encode(text: &str, keep: fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    let mut done = 0;
    for found in secret::find_stand_ins(text) {
        encode_plain(&text[done..found.start], keep, &mut encoded);
        encoded.push_str(&text[found.clone()]);
        done = found.end;
    }
    encode_plain(&text[done..], keep, &mut encoded);
    encoded
}

fn encode_plain(text: &str, keep: fn(char) -> bool, encoded: &mut String) {
    for character in text.chars() {
        if keep(character) {
            encoded.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | '-' | '%')
}

fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~')
}

/// Literal parts may hold delimiters and triplets that are encoded already.
fn is_uri_character(character: char) -> bool {
    is_unreserved(character) || "%:/?#[]@!$&'()*+,;=".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Value {
        value::parse(
            r#"{"roundId": 7, "name": "a b/ü", "ok": true, "none": null, "list": [1], "a.b": "x"}"#,
        )
        .unwrap()
    }

    fn expanded(template: &str) -> String {
        expand(template, &input()).unwrap()
    }

    #[test]
    fn fills_names_from_the_input() {
        assert_eq!(expanded("http://x/rounds/{roundId}"), "http://x/rounds/7");
        assert_eq!(expanded("http://x/{ok}/{a.b}"), "http://x/true/x");
        assert_eq!(expanded("http://x/{roundId,ok}"), "http://x/7,true");
    }

    #[test]
    fn what_is_missing_or_null_is_empty() {
        assert_eq!(expanded("http://x/{nowhere}/{none}/end"), "http://x///end");
        assert_eq!(expand("http://x/{a}", &Value::Null).unwrap(), "http://x/");
    }

    #[test]
    fn encodes_values_wholly_and_literals_only_where_needed() {
        assert_eq!(expanded("http://x/{name}?q=1&r=%20"), "http://x/a%20b%2F%C3%BC?q=1&r=%20");
        assert_eq!(expanded("http://x/a b"), "http://x/a%20b");
    }

    #[test]
    fn a_value_cannot_add_path_segments_or_a_query() {
        let input = value::parse(r#"{"id": "../admin?x=1#y@z"}"#).unwrap();
        assert_eq!(expand("http://x/{id}", &input).unwrap(), "http://x/..%2Fadmin%3Fx%3D1%23y%40z");
    }

    #[test]
    fn a_list_in_a_template_is_an_expression_fault() {
        let fault = expand("http://x/{list}", &input()).unwrap_err();
        assert!(fault.is(FaultKind::Expression));
        assert_eq!(fault.status, 400);
        assert!(fault.detail.unwrap().contains("`list`"));
    }

    #[test]
    fn rejects_what_is_not_a_simple_template() {
        for template in ["http://x/{open", "http://x/{+path}", "http://x/{}", "http://x/{a,}"] {
            let fault = expand(template, &input()).unwrap_err();
            assert!(fault.is(FaultKind::Configuration), "{template}");
        }
    }

    #[test]
    fn query_parameters_join_those_already_there_and_stay_before_the_fragment() {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let joined = with_query("http://x/?a=1#end".into(), &[pair("b c", "d&e"), pair("b c", "")]);
        assert_eq!(joined, "http://x/?a=1&b%20c=d%26e&b%20c=#end");
        assert_eq!(with_query("http://x/".into(), &[pair("a", "1")]), "http://x/?a=1");
        assert_eq!(with_query("http://x/?".into(), &[pair("a", "1")]), "http://x/?a=1");
    }

    #[test]
    fn stand_ins_for_secrets_stay_findable() {
        let token = secret::stand_in(&[7; 16], "api", "key");
        let uri = with_query("http://x/".into(), &[("k".into(), format!("a b{token}"))]);
        assert_eq!(uri, format!("http://x/?k=a%20b{token}"));
    }
}
