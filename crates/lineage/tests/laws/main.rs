//! The laws between copies of one execution, as properties of random worlds (see `docs/laws.md`).

mod debts;
mod encoding;
mod merging;
mod pivots;
mod world;
