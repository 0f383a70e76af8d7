//! The evaluation of seed 0 (Schäfer, Rothermel, Tariq: *Exploring the Search Space between Active and
//! Passive Workflow Replication*), its figures 2 and 4.
//!
//! Workflows of a hundred activities in a line run under failures that are drawn at random, without
//! replication, with passive, active and partition-tolerant replication. All modes of one number of
//! replicas see the same workflows and the same failures.

mod claims;
mod failures;
mod figures;
mod measuring;
mod rows;
mod svg;
#[cfg(test)]
mod tests;
mod workload;

use outlast_engine::{Acknowledge, Strategy, Survival};

pub use claims::Claim;
pub use measuring::Measured;
pub use rows::{Results, Row};
pub use workload::Stage;

use crate::Random;
use workload::Workload;

/// Which figure of the paper is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Figure 2: the primary crashes and the others are split, so that no partition has a majority.
    NoMajority,
    /// Figure 4: so many failures at random times.
    Failures,
}

impl Figure {
    /// Its number in the paper.
    pub const fn number(self) -> u8 {
        match self {
            Self::NoMajority => 2,
            Self::Failures => 4,
        }
    }
}

/// Who executes, and who may become primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// One node, its journal (the paper's NR).
    None,
    /// A primary that a majority elects.
    Passive,
    /// Every replica executes (the paper's ACT).
    Active,
    /// A primary in every partition with so many votes (the paper's t_v).
    PartitionTolerant(usize),
}

impl Mode {
    /// What it is called.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Passive => "passive",
            Self::Active => "active",
            Self::PartitionTolerant(_) => "partition-tolerant",
        }
    }
}

/// What is measured together: one row of the results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Case {
    /// How many nodes hold the execution.
    pub replicas: usize,
    /// How.
    pub mode: Mode,
    /// How many failures there are.
    pub failures: usize,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Which figure is repeated.
    pub figure: Figure,
    /// The numbers of replicas.
    pub replicas: Vec<usize>,
    /// How many executions each case has.
    pub runs: u32,
    /// Where all random numbers come from.
    pub seed: u64,
    /// What must be known where before a call of a passive primary leaves. The paper's passive
    /// replication waits for nobody; ours waits for a majority unless it is told otherwise.
    pub acknowledge: Acknowledge,
}

impl Experiment {
    /// All cases, in the order of the results.
    pub fn cases(&self) -> Vec<Case> {
        match self.figure {
            Figure::NoMajority => {
                let modes = [Mode::Passive, Mode::Active, Mode::PartitionTolerant(1)];
                let case = |replicas| modes.map(|mode| Case { replicas, mode, failures: 2 });
                self.replicas.iter().copied().flat_map(case).collect()
            }
            Figure::Failures => {
                let most = self.replicas.iter().copied().max().unwrap_or(0);
                let alone =
                    (0..=most).map(|failures| Case { replicas: 1, mode: Mode::None, failures });
                let together = self.replicas.iter().copied().flat_map(cases_of_failures);
                alone.chain(together).collect()
            }
        }
    }

    /// Measures one execution of a case.
    pub fn measure(&self, stage: &Stage, case: Case, run: u32) -> Measured {
        let mut random = Random::apart(self.seed, u64::from(run));
        let (workload_seed, failures_seed) = (random.next(), random.next());
        let workload = Workload::draw(&mut Random::new(workload_seed));
        // The same failures for every mode of so many replicas; other ones for another number.
        let which = (case.replicas * 1_000 + case.failures) as u64;
        let mut random = Random::apart(failures_seed, which);
        let faults = match (self.figure, case.mode) {
            (_, Mode::None) => failures::of_one_node(&mut random, case.failures, workload.length()),
            (Figure::Failures, _) => {
                failures::at_random(&mut random, case.replicas, case.failures, workload.length())
            }
            (Figure::NoMajority, _) => {
                failures::no_majority(&mut random, case.replicas, workload.length())
            }
        };
        let survival = self.survival(case);
        measuring::measure(random.next(), stage, &workload, survival, faults)
    }

    fn survival(&self, case: Case) -> Survival {
        let survival = |strategy| Survival::new(strategy, case.replicas);
        match case.mode {
            Mode::None => Survival::solo(),
            Mode::Passive => {
                Survival { acknowledge: self.acknowledge, ..survival(Strategy::Passive) }
            }
            Mode::Active => survival(Strategy::Active),
            Mode::PartitionTolerant(votes) => Survival {
                votes: u16::try_from(votes).unwrap_or(u16::MAX),
                ..survival(Strategy::PartitionTolerant)
            },
        }
    }
}

/// Every mode with none to as many failures as there are replicas.
fn cases_of_failures(replicas: usize) -> Vec<Case> {
    let votes = (1..=majority(replicas)).rev().map(Mode::PartitionTolerant);
    let modes = [Mode::Passive, Mode::Active].into_iter().chain(votes);
    modes
        .flat_map(|mode| (0..=replicas).map(move |failures| Case { replicas, mode, failures }))
        .collect()
}

/// The votes that a majority has.
const fn majority(replicas: usize) -> usize {
    replicas / 2 + 1
}
