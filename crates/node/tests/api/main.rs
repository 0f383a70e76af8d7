//! A real node with its API on a loopback port: what it answers, to whom, and what it withstands.

mod description;
mod hostile;
mod requests;
mod restarts;
mod server;
