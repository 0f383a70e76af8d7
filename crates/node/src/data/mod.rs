//! A node's data directory.

mod lock;

pub use lock::{Lock, LockError};
