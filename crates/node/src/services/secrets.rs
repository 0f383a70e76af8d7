//! Where secrets come from: a file that only its owner can read, and the environment.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use outlast_workflow::{Fault, FaultKind};
use serde_json::Value as Json;

use crate::private;

const VARIABLE_PREFIX: &str = "OUTLAST_SECRET_";

/// Gives secrets by name.
pub trait SecretSource: Send + Sync {
    /// The secret: a text, or an object of fields.
    fn secret(&self, name: &str) -> Option<Json>;
}

/// A source of nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn secret(&self, _name: &str) -> Option<Json> {
        None
    }
}

/// Secrets of a file and of the environment; the file's come first.
#[derive(Default)]
pub struct Secrets {
    file: BTreeMap<String, Json>,
    /// By the part of the variable's name after the prefix.
    environment: BTreeMap<String, String>,
}

/// The file of secrets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// It cannot be read.
    #[error("cannot read the file of secrets {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read it.
    #[error("others can read the file of secrets {path} (mode {mode:03o}); run: chmod 600 {path}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is not an object of secrets.
    #[error("the file of secrets {path} is not a JSON object of texts and objects (line {line})")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where reading stopped. The text itself is not shown: it holds secrets.
        line: usize,
    },
}

impl Secrets {
    /// Reads the file, if one is given, and takes `OUTLAST_SECRET_…` out of the variables.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SecretsError> {
        let environment = variables
            .into_iter()
            .filter_map(|(name, text)| Some((name.strip_prefix(VARIABLE_PREFIX)?.to_owned(), text)))
            .collect();
        let file = file.map(read_file).transpose()?.unwrap_or_default();
        Ok(Self { file, environment })
    }
}

impl SecretSource for Secrets {
    fn secret(&self, name: &str) -> Option<Json> {
        if let Some(secret) = self.file.get(name) {
            return Some(secret.clone());
        }
        let text = self.environment.get(&variable_suffix(name))?;
        // A variable holds an object of fields if it looks like one, otherwise the secret itself.
        let object = serde_json::from_str(text).ok().filter(Json::is_object);
        Some(object.unwrap_or_else(|| Json::String(text.clone())))
    }
}

impl std::fmt::Debug for Secrets {
    /// Names only.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.file.keys().chain(self.environment.keys())).finish()
    }
}

/// The text of a field of a secret; the path is dotted, and empty for the whole secret.
pub(super) fn reveal(source: &dyn SecretSource, name: &str, path: &str) -> Result<String, Fault> {
    let Some(secret) = source.secret(name) else {
        let suffix = variable_suffix(name);
        let detail = format!(
            "the secret `{name}` is not known to this node; put it into the file of secrets or \
             into the variable {VARIABLE_PREFIX}{suffix}"
        );
        return Err(Fault::new(FaultKind::Authorization, "Secret is not known", detail));
    };
    match field(&secret, path) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
        None => {
            let detail = format!("the secret `{name}` has no field `{path}`");
            Err(Fault::new(FaultKind::Authorization, "Secret is not known", detail))
        }
    }
}

fn field<'a>(secret: &'a Json, path: &str) -> Option<&'a Json> {
    if path.is_empty() {
        return Some(secret);
    }
    // A field whose name has a dot in it wins over a field of a field.
    if let Some(found) = secret.get(path) {
        return Some(found);
    }
    let (first, rest) = path.split_once('.')?;
    field(secret.get(first)?, rest)
}

fn read_file(path: &Path) -> Result<BTreeMap<String, Json>, SecretsError> {
    let unreadable = |source| SecretsError::Unreadable { path: path.to_owned(), source };
    let (text, exposed) = private::read(path).map_err(unreadable)?;
    if let Some(mode) = exposed {
        return Err(SecretsError::Exposed { path: path.to_owned(), mode });
    }
    let malformed = |line| SecretsError::Malformed { path: path.to_owned(), line };
    let secrets: BTreeMap<String, Json> =
        serde_json::from_str(&text).map_err(|error| malformed(error.line()))?;
    let usable = secrets.values().all(|secret| secret.is_string() || secret.is_object());
    if usable { Ok(secrets) } else { Err(malformed(1)) }
}

fn variable_suffix(name: &str) -> String {
    name.chars()
        .map(
            |character| {
                if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Secrets {
        let variables = [
            ("OUTLAST_SECRET_PET_STORE", r#"{"password": "hunter2", "a": {"b": 5}}"#),
            ("OUTLAST_SECRET_TOKEN", "abc"),
            ("HOME", "nowhere"),
        ];
        Secrets::load(None, variables.map(|(name, text)| (name.to_owned(), text.to_owned())))
            .unwrap()
    }

    #[test]
    fn finds_secrets_and_their_fields_in_the_environment() {
        let secrets = environment();
        assert_eq!(reveal(&secrets, "pet-store", "password").unwrap(), "hunter2");
        assert_eq!(reveal(&secrets, "pet-store", "a.b").unwrap(), "5");
        assert_eq!(reveal(&secrets, "token", "").unwrap(), "abc");
    }

    #[test]
    fn an_unknown_secret_is_an_authorization_fault_that_says_where_to_put_it() {
        for (name, path) in [("nobody", ""), ("pet-store", "user"), ("token", "x")] {
            let fault = reveal(&environment(), name, path).unwrap_err();
            assert!(fault.is(FaultKind::Authorization));
            assert_eq!(fault.status, 403);
            assert!(!fault.detail.unwrap().contains("hunter2"));
        }
        let fault = reveal(&environment(), "my.key", "").unwrap_err();
        assert!(fault.detail.unwrap().contains("OUTLAST_SECRET_MY_KEY"));
    }

    #[cfg(unix)]
    #[test]
    fn reads_a_file_that_only_its_owner_can_read() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"{"token": "from the file"}"#).unwrap();
        let load = || Secrets::load(Some(file.path()), []);
        let set_mode = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o600);
        assert_eq!(reveal(&load().unwrap(), "token", "").unwrap(), "from the file");
        for mode in [0o640, 0o604] {
            set_mode(mode);
            assert!(matches!(load(), Err(SecretsError::Exposed { .. })), "{mode:o}");
        }
    }

    #[test]
    fn a_malformed_file_is_reported_without_its_text() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"token\":\n hunter2}").unwrap();
        let error = Secrets::load(Some(file.path()), []).unwrap_err();
        assert!(matches!(error, SecretsError::Malformed { line: 2, .. }), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn debug_output_shows_names_only() {
        assert!(!format!("{:?}", environment()).contains("hunter2"));
    }
}
