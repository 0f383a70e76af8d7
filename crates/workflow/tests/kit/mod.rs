//! Programs built by hand and a world that answers them, for tests of the interpreter.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate and uses a part of the kit"
)]

pub mod build;
pub mod world;
