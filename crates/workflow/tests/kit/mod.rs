//! Programs built by hand and a world that answers them, for tests of the interpreter.
#![allow(dead_code, reason = "each test file uses a part of the kit")]

pub mod build;
pub mod world;
