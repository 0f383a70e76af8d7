//! Evaluations of the papers, repeated with production engines in the world.
//!
//! An experiment is a list of cases and a function that measures one run of one case. It has no
//! threads: whoever drives it may measure in any order and on any number of them, and gets the same
//! rows, because every run has its own seed.

pub mod replication;
