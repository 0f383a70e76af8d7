//! The outlast binary: one file per verb.
fn main() {}
