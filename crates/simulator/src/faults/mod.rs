//! Faults as data: what goes wrong, where, from when on and for how long; and what people ask for meanwhile.
//!
//! A fault is written `KIND@START+DURATION:NODES=AMOUNT`, times in seconds since the world began, for
//! example `split@1.5+3:1,2` or `loss@0.2+10=150`. What is not needed may be left out.

mod bounds;
mod generate;
mod text;

use std::time::Duration;

use outlast_engine::Phase;

use crate::Places;

pub use generate::{FaultPlan, generate};
pub(crate) use generate::{aim, wish};

/// One thing that goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When, since the world began.
    pub at: Duration,
    /// For how long.
    pub duration: Duration,
    /// Which nodes it befalls; for a cut, one side of it.
    pub nodes: Places,
    /// How much: of a thousand, how many times, or microseconds, by its kind.
    pub amount: i64,
}

/// What can go wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A node dies and comes back when it is over.
    Crash,
    /// A node dies again and again, `amount` times.
    RestartLoop,
    /// All nodes die at once, and come back one after the other.
    Outage,
    /// A node does nothing (SIGSTOP); what comes in meanwhile is there when it goes on.
    Pause,
    /// Every step of a node takes `amount` microseconds.
    Slow,
    /// The nodes cannot reach the others, nor the others them.
    Split,
    /// The nodes cannot reach the others, but the others them.
    OneWay,
    /// As a split, but for the node `amount`, which reaches and is reached by all.
    Bridge,
    /// A split that comes and goes every `amount` microseconds.
    Flap,
    /// One node is cut off from all others.
    Isolate,
    /// Of a thousand messages, `amount` are lost.
    Loss,
    /// Of a thousand messages, `amount` arrive twice.
    Duplication,
    /// Of a thousand messages, `amount` are overtaken.
    Reordering,
    /// Messages take `amount` times as long.
    SlowNetwork,
    /// A link carries `amount` bytes in a second.
    NarrowNetwork,
    /// A node's disk takes no more.
    DiskFull,
    /// The next sync of a node's disk fails: the node stops, and comes back when it is over.
    SyncError,
    /// The next write of records fails (EIO): the node stops, and comes back when it is over.
    WriteError,
    /// Nothing can be read from a node's disk (EIO): its store gives back nothing, and it cannot come up.
    ReadError,
    /// A node's disk takes `amount` times as long to sync.
    SlowDisk,
    /// A bit of a node's journal rots, and the node crashes: it comes back as a new one.
    BitFlip,
    /// A node loses its disk: it comes back as a new one.
    LostDisk,
    /// A node's clock jumps by `amount` microseconds.
    ClockJump,
    /// A node's clock stands still.
    ClockStall,
    /// Of a thousand calls, `amount` definitely fail.
    ServiceErrors,
    /// Of a thousand answers of services, `amount` are lost.
    LostAnswers,
    /// Services take `amount` times as long.
    SlowServices,
    /// A node stops in good order, tells the others so, and comes back when it is over.
    Stop,
    /// The first node that agrees with others on the result of an execution dies, `amount` steps
    /// into it.
    CrashAgreeing,
    /// The first node that undoes what was not decided on dies, `amount` steps into it.
    CrashCompensating,
    /// The first node that forgets an execution together with others dies, `amount` steps into it.
    CrashForgetting,
    /// Somebody stops execution number `amount`, at a node that leads it.
    Cancel,
    /// Somebody has execution number `amount` rolled back, at a node that leads it.
    Compensate,
    /// Somebody holds execution number `amount`, at a node that leads it, and lets it go on when it is over.
    Suspend,
}

impl FaultKind {
    /// Everything that can go wrong.
    pub const ALL: [Self; 34] = [
        Self::Crash,
        Self::RestartLoop,
        Self::Outage,
        Self::Pause,
        Self::Slow,
        Self::Split,
        Self::OneWay,
        Self::Bridge,
        Self::Flap,
        Self::Isolate,
        Self::Loss,
        Self::Duplication,
        Self::Reordering,
        Self::SlowNetwork,
        Self::NarrowNetwork,
        Self::DiskFull,
        Self::SyncError,
        Self::WriteError,
        Self::ReadError,
        Self::SlowDisk,
        Self::BitFlip,
        Self::LostDisk,
        Self::ClockJump,
        Self::ClockStall,
        Self::ServiceErrors,
        Self::LostAnswers,
        Self::SlowServices,
        Self::Stop,
        Self::CrashAgreeing,
        Self::CrashCompensating,
        Self::CrashForgetting,
        Self::Cancel,
        Self::Compensate,
        Self::Suspend,
    ];

    /// What a disk answers with EIO, but for a sync.
    pub const UNREAD: [Self; 2] = [Self::WriteError, Self::ReadError];

    /// What waits for a node to be in a phase of an execution's end, and strikes then.
    pub const AIMED: [Self; 3] =
        [Self::CrashAgreeing, Self::CrashCompensating, Self::CrashForgetting];

    /// What is no fault but somebody's wish, in the midst of everything else.
    pub const WISHES: [Self; 3] = [Self::Cancel, Self::Compensate, Self::Suspend];

    /// What it is called.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::RestartLoop => "restart-loop",
            Self::Outage => "outage",
            Self::Pause => "pause",
            Self::Slow => "slow",
            Self::Split => "split",
            Self::OneWay => "one-way",
            Self::Bridge => "bridge",
            Self::Flap => "flap",
            Self::Isolate => "isolate",
            Self::Loss => "loss",
            Self::Duplication => "duplication",
            Self::Reordering => "reordering",
            Self::SlowNetwork => "slow-network",
            Self::NarrowNetwork => "narrow-network",
            Self::DiskFull => "disk-full",
            Self::SyncError => "sync-error",
            Self::WriteError => "write-error",
            Self::ReadError => "read-error",
            Self::SlowDisk => "slow-disk",
            Self::BitFlip => "bit-flip",
            Self::LostDisk => "lost-disk",
            Self::ClockJump => "clock-jump",
            Self::ClockStall => "clock-stall",
            Self::ServiceErrors => "service-errors",
            Self::LostAnswers => "lost-answers",
            Self::SlowServices => "slow-services",
            Self::Stop => "stop",
            Self::CrashAgreeing => "crash-agreeing",
            Self::CrashCompensating => "crash-compensating",
            Self::CrashForgetting => "crash-forgetting",
            Self::Cancel => "cancel",
            Self::Compensate => "compensate",
            Self::Suspend => "suspend",
        }
    }

    /// Which group it belongs to: the groups may be named in place of their kinds.
    pub const fn group(self) -> &'static str {
        match self {
            Self::Crash
            | Self::RestartLoop
            | Self::Outage
            | Self::Pause
            | Self::Slow
            | Self::Stop => "process",
            Self::Split | Self::OneWay | Self::Bridge | Self::Flap | Self::Isolate => "partition",
            Self::Loss
            | Self::Duplication
            | Self::Reordering
            | Self::SlowNetwork
            | Self::NarrowNetwork => "network",
            Self::DiskFull
            | Self::SyncError
            | Self::WriteError
            | Self::ReadError
            | Self::SlowDisk
            | Self::BitFlip
            | Self::LostDisk => "disk",
            Self::ClockJump | Self::ClockStall => "clock",
            Self::ServiceErrors | Self::LostAnswers | Self::SlowServices => "service",
            Self::CrashAgreeing | Self::CrashCompensating | Self::CrashForgetting => "aimed",
            Self::Cancel | Self::Compensate | Self::Suspend => "people",
        }
    }

    /// The kinds that a list of words names: kinds, groups, `all` or `none`.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut kinds = Vec::new();
        for word in text.split(',').map(str::trim) {
            let fits = |kind: &Self| word == "all" || kind.word() == word || kind.group() == word;
            let named: Vec<Self> = Self::ALL.into_iter().filter(fits).collect();
            if named.is_empty() && word != "none" {
                let known: Vec<_> = Self::ALL.iter().map(|kind| kind.word()).collect();
                return Err(format!(
                    "there is no fault `{word}`; there are {}, the groups process, partition, network, \
                     disk, clock, service, aimed and people, all and none",
                    known.join(", ")
                ));
            }
            kinds.extend(named);
        }
        if text.contains(',') && text.split(',').any(|word| word.trim() == "none") {
            return Err(format!("`{text}`: `none` stands alone"));
        }
        kinds.sort_unstable();
        kinds.dedup();
        Ok(kinds)
    }

    /// The phase of an execution's end that it waits for, if it is aimed at one.
    pub const fn aims_at(self) -> Option<Phase> {
        match self {
            Self::CrashAgreeing => Some(Phase::Agreeing),
            Self::CrashCompensating => Some(Phase::Compensating),
            Self::CrashForgetting => Some(Phase::Forgetting),
            _ => None,
        }
    }

    /// Whether it was there later than the others, and is drawn apart so that earlier seeds are what they were.
    pub(crate) fn is_drawn_apart(self) -> bool {
        let is_wished = Self::WISHES.contains(&self) || Self::UNREAD.contains(&self);
        self == Self::Stop || is_wished || self.aims_at().is_some()
    }

    /// Whether a node's disk is gone afterwards.
    pub const fn loses_a_disk(self) -> bool {
        matches!(self, Self::BitFlip | Self::LostDisk)
    }
}

impl Fault {
    /// When it is over, since the world began.
    pub fn ends(&self) -> Duration {
        self.at.saturating_add(self.duration)
    }

    /// Whether it befalls the node at a place.
    pub const fn befalls(&self, place: usize) -> bool {
        self.nodes >> place & 1 == 1
    }

    /// The places it befalls.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes;
        (0..64).filter(move |place| nodes >> place & 1 == 1)
    }
}
