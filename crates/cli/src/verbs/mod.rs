//! One file per verb: what it takes (`Arguments`) and what it does (`run`).

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod data;
pub(crate) mod expression_worker;
pub(crate) mod fixture;
pub(crate) mod node;
pub(crate) mod run;
