//! What a fault has to say, and within which bounds.
//!
//! A crash of nobody, a loss of no message or a split of no duration would do no harm, and a world would
//! be said to hold under it; and what never ends leaves no time to heal. Both are refused.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Fault, FaultKind};

/// When a fault is over at the latest: a world has a day, and half of it is left to heal.
const LATEST: Duration = Duration::from_secs(12 * 60 * 60);

/// By how many microseconds a clock jumps at most: a hundred years.
const CENTURY: i64 = 100 * 365 * 24 * 60 * 60 * 1_000_000;

/// How many executions a world has at most.
const EXECUTIONS_MAX: i64 = 200;

/// Which nodes a fault names.
enum Named {
    Nobody,
    One,
    Some,
    /// Whoever it strikes, or one of the named ones.
    Any,
}

impl Fault {
    /// Refuses what would do no harm, or could not be.
    pub(super) fn check(&self) -> Result<(), String> {
        let (kind, named) = (self.kind.word(), self.nodes.count_ones());
        match (self.kind.names(), named) {
            (Named::Some | Named::One, 0) => Err(format!("{kind} of which nodes?")),
            (Named::One, 2..) => Err(format!("{kind} is of one node")),
            (Named::Nobody, 1..) => Err(format!("{kind} is of no node in particular")),
            _ => Ok(()),
        }?;
        let (least, most) = self.kind.amounts().into_inner();
        if most == 0 && self.amount != 0 {
            return Err(format!("{kind} has no amount"));
        }
        let is_still = self.kind == FaultKind::ClockJump && self.amount == 0;
        if is_still || !(least..=most).contains(&self.amount) {
            let but = if is_still { ", but not 0" } else { "" };
            return Err(format!("the amount of {kind} is {least} to {most}{but}"));
        }
        if self.duration.is_zero() && self.kind.lasts() {
            return Err(format!("{kind} has a duration"));
        }
        if LATEST < self.ends() {
            return Err(format!("a fault is over after {} s", LATEST.as_secs()));
        }
        Ok(())
    }
}

impl FaultKind {
    const fn names(self) -> Named {
        match self {
            Self::Isolate => Named::One,
            Self::Outage
            | Self::Loss
            | Self::Duplication
            | Self::Reordering
            | Self::SlowNetwork
            | Self::NarrowNetwork
            | Self::ServiceErrors
            | Self::LostAnswers
            | Self::SlowServices => Named::Nobody,
            Self::CrashAgreeing
            | Self::CrashCompensating
            | Self::CrashForgetting
            | Self::Cancel
            | Self::Compensate
            | Self::Suspend => Named::Any,
            _ => Named::Some,
        }
    }

    const fn amounts(self) -> RangeInclusive<i64> {
        match self {
            Self::RestartLoop => 1..=1_000,
            Self::Slow => 1..=1_000_000,
            Self::Bridge => 1..=64,
            Self::Flap => 1_000..=60_000_000,
            Self::Loss
            | Self::Duplication
            | Self::Reordering
            | Self::ServiceErrors
            | Self::LostAnswers => 1..=1_000,
            // Once as long is no longer.
            Self::SlowNetwork | Self::SlowServices => 2..=1_000,
            // So that a disk can stand still for a while.
            Self::SlowDisk => 2..=100_000,
            Self::NarrowNetwork => 1_000..=1_000_000_000,
            Self::ClockJump => -CENTURY..=CENTURY,
            Self::CrashAgreeing | Self::CrashCompensating | Self::CrashForgetting => 0..=1_000,
            Self::Cancel | Self::Compensate | Self::Suspend => 1..=EXECUTIONS_MAX,
            _ => 0..=0,
        }
    }

    /// Whether it does nothing unless it lasts. Whoever dies is away for a moment in any case.
    const fn lasts(self) -> bool {
        !matches!(
            self,
            Self::Crash
                | Self::RestartLoop
                | Self::Outage
                | Self::Stop
                | Self::BitFlip
                | Self::LostDisk
                | Self::ClockJump
                | Self::Cancel
                | Self::Compensate
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::faults::{FaultPlan, aim, generate};

    #[test]
    fn what_would_do_no_harm_or_could_not_be_is_refused() {
        let wrong = [
            ("crash@1+1", "of which nodes?"),
            ("split@1+1", "of which nodes?"),
            ("isolate@1+1:1,2", "is of one node"),
            ("loss@1+1:2=100", "of no node in particular"),
            ("crash@1+1:1=7", "has no amount"),
            ("loss@1+1", "1 to 1000"),
            ("loss@1+1=1001", "1 to 1000"),
            ("loss@1+1=-5", "1 to 1000"),
            ("bridge@1+1:1", "1 to 64"),
            ("bridge@1+1:1=65", "1 to 64"),
            ("slow-network@1+1=0", "2 to 1000"),
            ("slow-network@1+1=1", "2 to 1000"),
            ("slow-services@1+1=1", "2 to 1000"),
            ("slow-disk@1+1:1=1", "2 to 100000"),
            ("restart-loop@1+1:1=9223372036854775807", "1 to 1000"),
            ("clock-jump@1:1", "but not 0"),
            ("clock-jump@1:1=-9223372036854775808", "is -"),
            ("split@1:1", "has a duration"),
            ("suspend@1=1", "has a duration"),
            ("cancel@1", "1 to 200"),
            ("crash@1+99999999999:1", "is over after 43200 s"),
            ("crash@18446744073709551615+18446744073709551615:1", "is over after 43200 s"),
        ];
        for (text, reason) in wrong {
            let told = text.parse::<Fault>().unwrap_err();
            assert!(told.contains(reason), "{text}: {told}");
        }
    }

    #[test]
    fn what_is_drawn_is_within_the_bounds() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let nodes = 1 + random.index(5);
            let (kinds, window) = (FaultKind::ALL.to_vec(), Duration::from_secs(6));
            let plan = FaultPlan { kinds, nodes, faults_max: 12, window, disks_max: 1 };
            let mut faults = generate(&mut random, &plan);
            faults.push(aim(&mut random, &FaultKind::AIMED));
            for fault in faults {
                assert_eq!(fault.to_string().parse(), Ok(fault));
            }
        }
    }
}
