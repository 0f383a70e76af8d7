//! One file per verb: what it takes (`Arguments`) and what it does (`run`).

pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod compensate;
pub(crate) mod data;
pub(crate) mod definitions;
pub(crate) mod delete;
pub(crate) mod experiment;
pub(crate) mod expression_worker;
pub(crate) mod fixture;
pub(crate) mod graph;
pub(crate) mod history;
pub(crate) mod node;
pub(crate) mod parked;
pub(crate) mod ps;
pub(crate) mod resolve;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod signal;
pub(crate) mod simulate;
pub(crate) mod start;
pub(crate) mod suspend;
pub(crate) mod token;
