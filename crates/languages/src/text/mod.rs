//! YAML 1.2 and JSON text as a tree whose every key and value knows where it stands.

mod node;
mod read;
mod scalar;
mod suggest;

pub(crate) use node::{Cursor, Entry, Node, NodeKind, pointer_with};
pub(crate) use read::read;
pub(crate) use scalar::unquoted;
pub(crate) use suggest::{closest, did_you_mean, listed};

#[cfg(test)]
mod tests;
