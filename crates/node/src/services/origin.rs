//! Requests to one origin sent to another: documents stay as they are, tests and mirrors get the call.

use std::collections::BTreeMap;

use reqwest::Url;

/// Which origin stands for which. Faults and answers still tell the one in the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginMap(BTreeMap<String, Url>);

/// The text is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an origin such as https://example.org or http://127.0.0.1:8080")]
pub struct OriginError(pub String);

impl OriginMap {
    /// Sends requests for `from` to `to`.
    pub fn insert(&mut self, from: &str, to: &str) -> Result<(), OriginError> {
        let from = origin(from)?;
        self.0.insert(from.origin().ascii_serialization(), origin(to)?);
        Ok(())
    }

    /// Where a request really goes.
    pub(super) fn apply(&self, url: &Url) -> Url {
        let mut mapped = url.clone();
        let Some(to) = self.0.get(&url.origin().ascii_serialization()) else { return mapped };
        let changed = mapped.set_scheme(to.scheme()).is_ok()
            && mapped.set_host(to.host_str()).is_ok()
            && mapped.set_port(to.port()).is_ok();
        assert!(changed, "an origin that was checked fits every http URL");
        mapped
    }
}

fn origin(text: &str) -> Result<Url, OriginError> {
    let error = || OriginError(text.to_owned());
    let url = Url::parse(text).map_err(|_| error())?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.path() == "/"
        && url.query().is_none()
        && url.username().is_empty();
    if bare { Ok(url) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_the_origin_and_keeps_the_rest() {
        let mut map = OriginMap::default();
        map.insert("https://petstore.swagger.io", "http://127.0.0.1:8080").unwrap();
        let mapped = |text: &str| map.apply(&Url::parse(text).unwrap()).to_string();
        assert_eq!(
            mapped("https://petstore.swagger.io/v2/a?b=1"),
            "http://127.0.0.1:8080/v2/a?b=1"
        );
        assert_eq!(mapped("https://petstore.swagger.io:443/"), "http://127.0.0.1:8080/");
        assert_eq!(mapped("http://petstore.swagger.io/"), "http://petstore.swagger.io/");
        assert_eq!(mapped("https://petstore.swagger.io:444/"), "https://petstore.swagger.io:444/");
    }

    #[test]
    fn an_explicit_port_does_not_survive_a_mapping_to_a_default_port() {
        let mut map = OriginMap::default();
        map.insert("http://a:81", "https://b").unwrap();
        assert_eq!(map.apply(&Url::parse("http://a:81/x").unwrap()).as_str(), "https://b/x");
    }

    #[test]
    fn rejects_what_is_not_an_origin() {
        let mut map = OriginMap::default();
        for text in ["x", "https://x/path", "ftp://x", "https://u@x"] {
            assert_eq!(map.insert(text, "http://y"), Err(OriginError(text.to_owned())));
        }
    }
}
