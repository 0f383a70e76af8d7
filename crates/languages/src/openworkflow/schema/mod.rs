//! The schemas: the net below our own checks, and the data schemas that documents carry.

mod data;
mod net;

pub(super) use data::DataSchema;
pub(super) use net::check;
