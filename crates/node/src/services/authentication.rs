//! Showing who is calling: Basic, Bearer, and the answer to a Digest challenge (RFC 7616).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use outlast_workflow::ResolvedAuthentication;
use sha2::{Digest, Sha256};

/// The `Authorization` header that needs no challenge.
pub(super) fn unchallenged(authentication: &ResolvedAuthentication) -> Option<String> {
    match authentication {
        ResolvedAuthentication::Basic(username, password) => {
            Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
        }
        ResolvedAuthentication::Bearer(token) => Some(format!("Bearer {token}")),
        ResolvedAuthentication::Digest(..) => None,
    }
}

/// What a challenge is answered for.
pub(super) struct Asked<'a> {
    pub(super) username: &'a str,
    pub(super) password: &'a str,
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) uri: &'a str,
    /// Makes the client's nonce unlike that of any other call.
    pub(super) key: &'a str,
}

/// The `Authorization` header that answers the best challenge we understand; nothing without one.
pub(super) fn answer_challenge<'a>(
    headers: impl IntoIterator<Item = &'a str>,
    asked: &Asked<'_>,
) -> Option<String> {
    let mut challenges: Vec<Challenge> =
        headers.into_iter().flat_map(challenges_of).filter_map(Challenge::read).collect();
    // The strongest first: servers list them in order of preference, but not all of them do.
    challenges.sort_by_key(|challenge| challenge.algorithm);
    challenges.first().map(|challenge| challenge.answer(asked))
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Algorithm {
    Sha256,
    Md5,
}

impl Algorithm {
    fn hash(self, text: &str) -> String {
        let hexadecimal =
            |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Self::Sha256 => hexadecimal(&Sha256::digest(text)),
            Self::Md5 => hexadecimal(&Md5::digest(text)),
        }
    }
}

#[derive(Debug)]
struct Challenge {
    algorithm: Algorithm,
    /// The algorithm as the server spelled it, to be repeated.
    algorithm_text: Option<String>,
    session: bool,
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// Whether the quality of protection `auth` is offered; without it, RFC 2069 applies.
    protected: bool,
}

impl Challenge {
    fn read((scheme, parameters): (String, Vec<(String, String)>)) -> Option<Self> {
        let get = |name: &str| {
            parameters.iter().find(|(known, _)| known == name).map(|(_, text)| text.clone())
        };
        let algorithm_text = get("algorithm");
        let spelled = algorithm_text.clone().unwrap_or_else(|| "MD5".into()).to_ascii_uppercase();
        let (plain, session) = match spelled.strip_suffix("-SESS") {
            Some(plain) => (plain, true),
            None => (spelled.as_str(), false),
        };
        let algorithm = match plain {
            "SHA-256" => Algorithm::Sha256,
            "MD5" => Algorithm::Md5,
            _ => return None,
        };
        let qualities = get("qop");
        let protected = qualities
            .as_deref()
            .is_some_and(|list| list.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")));
        let usable = scheme.eq_ignore_ascii_case("digest") && (qualities.is_none() || protected);
        usable.then_some(())?;
        Some(Self {
            algorithm,
            algorithm_text,
            session,
            realm: get("realm")?,
            nonce: get("nonce")?,
            opaque: get("opaque"),
            protected,
        })
    }

    fn answer(&self, asked: &Asked<'_>) -> String {
        let Asked { username, password, uri, key, .. } = asked;
        // Unguessable without the password, so no random source is needed.
        let own_nonce = &Algorithm::Sha256.hash(&format!("{key}:{}:{password}", self.nonce))[..32];
        let response = self.response(asked, own_nonce);
        let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut header = format!(
            r#"Digest username="{}", realm="{}", nonce="{}", uri="{uri}", response="{response}""#,
            quote(username),
            quote(&self.realm),
            quote(&self.nonce),
        );
        if let Some(algorithm) = &self.algorithm_text {
            header.push_str(&format!(", algorithm={algorithm}"));
        }
        if let Some(opaque) = &self.opaque {
            header.push_str(&format!(r#", opaque="{}""#, quote(opaque)));
        }
        if self.protected {
            header.push_str(&format!(r#", qop=auth, nc=00000001, cnonce="{own_nonce}""#));
        }
        header
    }

    fn response(&self, asked: &Asked<'_>, own_nonce: &str) -> String {
        let hash = |text: String| self.algorithm.hash(&text);
        let mut who = hash(format!("{}:{}:{}", asked.username, self.realm, asked.password));
        if self.session {
            who = hash(format!("{who}:{}:{own_nonce}", self.nonce));
        }
        let what = hash(format!("{}:{}", asked.method, asked.uri));
        if self.protected {
            hash(format!("{who}:{}:00000001:{own_nonce}:auth:{what}", self.nonce))
        } else {
            hash(format!("{who}:{}:{what}", self.nonce))
        }
    }
}

/// The challenges in a `WWW-Authenticate` header: schemes with their parameters.
fn challenges_of(header: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut challenges: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for part in split_outside_quotes(header) {
        let part = part.trim();
        let (name, text) = part.split_once('=').unwrap_or((part, ""));
        // A scheme stands before its first parameter, separated by a space.
        let name = match name.trim().split_once(' ') {
            Some((scheme, name)) => {
                challenges.push((scheme.to_owned(), Vec::new()));
                name.trim()
            }
            None => name.trim(),
        };
        match challenges.last_mut() {
            Some((_, parameters)) if part.contains('=') => {
                parameters.push((name.to_ascii_lowercase(), unquote(text.trim())));
            }
            _ => challenges.push((name.to_owned(), Vec::new())),
        }
    }
    challenges
}

fn split_outside_quotes(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped, mut start) = (false, false, 0);
    let mut parts = Vec::new();
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unquote(text: &str) -> String {
    let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut plain = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'static> = Asked {
        username: "Mufasa",
        password: "Circle of Life",
        method: "GET",
        uri: "/dir/index.html",
        key: "k",
    };

    fn challenge(header: &str) -> Challenge {
        challenges_of(header).into_iter().find_map(Challenge::read).unwrap()
    }

    /// RFC 7616, section 3.9.1, with its own client nonce.
    #[test]
    fn answers_the_example_of_the_standard() {
        let header = |algorithm: &str| {
            format!(
                r#"Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={algorithm},
                 nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe""#
            )
        };
        let own_nonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        assert_eq!(
            challenge(&header("MD5")).response(&ASKED, own_nonce),
            "8ca523f5e9506fed4657c9700eebdbec"
        );
        assert_eq!(
            challenge(&header("SHA-256")).response(&ASKED, own_nonce),
            "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"
        );
    }

    /// RFC 2617, section 3.5, without the quality of protection: RFC 2069 as servers still speak it.
    #[test]
    fn answers_old_servers() {
        let challenge = challenge(
            r#"Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093""#,
        );
        let asked = Asked { password: "CircleOfLife", ..ASKED };
        assert_eq!(challenge.response(&asked, ""), "1949323746fe6a43ef61f9606e7febea");
    }

    #[test]
    fn prefers_the_stronger_algorithm_and_skips_other_schemes() {
        let header = answer_challenge(
            [
                r#"Basic realm="a, b", Digest realm="r", nonce="n1", qop="auth""#,
                r#"Digest realm="r", nonce="n2", qop="auth", algorithm=SHA-256"#,
            ],
            &ASKED,
        )
        .unwrap();
        assert!(header.contains(r#"nonce="n2""#), "{header}");
        assert!(header.contains("algorithm=SHA-256"), "{header}");
        assert!(!header.contains("Circle of Life"), "{header}");
    }

    #[test]
    fn does_not_answer_what_it_does_not_understand() {
        for header in [
            "Negotiate",
            r#"Basic realm="x""#,
            r#"Digest realm="r", nonce="n", algorithm=SHA-512-256"#,
            r#"Digest realm="r", nonce="n", qop="auth-int""#,
            r#"Digest nonce="n""#,
            "",
        ] {
            assert_eq!(answer_challenge([header], &ASKED), None, "{header}");
        }
    }

    #[test]
    fn reads_quoted_texts_with_commas_and_escapes() {
        let challenge = challenge(r#"Digest realm="a, \"b\" c=d", nonce="n""#);
        assert_eq!(challenge.realm, r#"a, "b" c=d"#);
    }

    #[test]
    fn basic_and_bearer_need_no_challenge() {
        let basic = ResolvedAuthentication::Basic("Aladdin".into(), "open sesame".into());
        assert_eq!(unchallenged(&basic).unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let bearer = ResolvedAuthentication::Bearer("t".into());
        assert_eq!(unchallenged(&bearer).unwrap(), "Bearer t");
        assert_eq!(unchallenged(&ResolvedAuthentication::Digest("u".into(), "p".into())), None);
    }
}
