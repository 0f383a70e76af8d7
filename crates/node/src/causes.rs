//! Errors for people who only see one line.

use std::error::Error;

/// An error with all its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Error as IoError, ErrorKind};

    use super::*;
    use crate::cluster::ClusterError;

    #[test]
    fn what_the_operating_system_said_is_told_with_where() {
        let source = IoError::from(ErrorKind::StorageFull);
        let said = source.to_string();
        let path = "cluster/invitations".into();
        let told = chain(&ClusterError::Io { action: "write", path, source });
        assert_eq!(told, format!("cannot write cluster/invitations: {said}"));
    }
}
