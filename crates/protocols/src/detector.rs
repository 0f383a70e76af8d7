//! Who has fallen silent: the failure detector that replicas watch each other with.
//!
//! Everyone says something at a fixed interval. A peer that says nothing for as long as the timeout
//! is lost, until it speaks again. The timeout grows with how irregularly a peer's words arrive (as
//! TCP's does: the mean plus four deviations), never below what was configured and never above four
//! times that, so that no peer earns patience without end.
//!
//! A process that was stalled would find everyone silent, though their words wait in its own queues.
//! So whenever a timer comes late, all deadlines move by as much; and a clock that is set back takes
//! them along. A suspicion is therefore never more than this node's opinion, and nothing that must
//! not go wrong may rest on it.
//!
//! Invariants:
//! - Whoever is lost was silent for at least the configured timeout of this node's waking time.
//! - `Lost` and `Back` of a peer take turns, `Lost` first.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_lineage::{NodeId, Time};

/// How many times the configured timeout a peer is waited for at most.
const PATIENCE_MAX: u32 = 4;

/// One node's opinion on who of its peers is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detector {
    options: Options,
    peers: BTreeMap<NodeId, Watched>,
    /// When this node is to say something next.
    beat_at: Option<Time>,
    /// For when the owner was asked to wake this machine.
    armed: Option<Time>,
    /// The latest time it was told.
    latest: Time,
}

/// How patient a detector is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How often everyone says something.
    pub interval: Duration,
    /// How long a peer may be silent; several intervals, so that one lost word is no loss.
    pub timeout: Duration,
}

/// What is known of a peer's words.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Watched {
    heard: Time,
    /// The usual time between two words, and how far they usually are from it; nothing after none.
    usual: Option<(Duration, Duration)>,
    lost: bool,
}

/// What a detector can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Watch this peer from now on, as if it had just spoken.
    Watch(NodeId),
    /// Watch it no longer.
    Unwatch(NodeId),
    /// A peer said something: a heartbeat, or anything else.
    Heard(NodeId),
    /// The time of a timer has come.
    TimerFired(Timer),
}

/// What a detector wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a heartbeat to everyone watched.
    Beat,
    /// This peer has fallen silent.
    Lost(NodeId),
    /// This peer speaks again.
    Back(NodeId),
    /// Give `Input::TimerFired` at this time.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// When.
        at: Time,
    },
}

/// What a detector waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// This node should say something, or a peer should have.
    WordDue,
}

impl Detector {
    /// A detector that watches nobody.
    pub fn new(options: Options) -> Self {
        assert!(!options.interval.is_zero(), "words take time");
        assert!(options.interval < options.timeout, "a peer may be silent between two words");
        let (peers, latest) = (BTreeMap::new(), Time::default());
        Self { options, peers, beat_at: None, armed: None, latest }
    }

    /// Takes one input, and says what is to be done.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Output> {
        self.follow_the_clock(now);
        let mut outputs = match input {
            Input::Watch(peer) => self.watch(now, peer),
            Input::Unwatch(peer) => self.unwatch(peer),
            Input::Heard(peer) => self.hear(now, peer),
            Input::TimerFired(Timer::WordDue) => self.look(now),
        };
        outputs.extend(self.arm());
        outputs
    }

    /// Moves what lies ahead by as long as this process was stalled, or as its clock was set back.
    fn follow_the_clock(&mut self, now: Time) {
        let set_back = self.latest.since(now);
        let late = self.armed.map_or(Duration::ZERO, |armed| now.since(armed));
        if !set_back.is_zero() {
            self.shift(|time| earlier(time, set_back));
            // The timer that was asked for is now too far away.
            self.armed = None;
        } else if self.options.interval < late {
            // Less is ordinary, and must not add up to a peer that is never lost.
            self.shift(|time| time.after(late));
        }
        self.latest = now;
    }

    fn shift(&mut self, moved: impl Fn(Time) -> Time) {
        for peer in self.peers.values_mut() {
            peer.heard = moved(peer.heard);
        }
        self.beat_at = self.beat_at.map(&moved);
        self.armed = self.armed.map(&moved);
    }

    fn watch(&mut self, now: Time, peer: NodeId) -> Vec<Output> {
        self.peers.entry(peer).or_insert(Watched { heard: now, usual: None, lost: false });
        if self.beat_at.is_some() {
            return Vec::new();
        }
        self.beat_at = Some(now.after(self.options.interval));
        vec![Output::Beat]
    }

    fn unwatch(&mut self, peer: NodeId) -> Vec<Output> {
        self.peers.remove(&peer);
        if self.peers.is_empty() {
            self.beat_at = None;
        }
        Vec::new()
    }

    fn hear(&mut self, now: Time, peer: NodeId) -> Vec<Output> {
        let Some(watched) = self.peers.get_mut(&peer) else { return Vec::new() };
        let was_lost = std::mem::take(&mut watched.lost);
        let gap = now.since(watched.heard);
        watched.heard = now;
        if was_lost {
            // How long it was away says nothing about how regularly it speaks.
            return vec![Output::Back(peer)];
        }
        watched.learn(gap);
        Vec::new()
    }

    /// Speaks if it is time to, and finds out who should have.
    fn look(&mut self, now: Time) -> Vec<Output> {
        self.armed = None;
        let mut outputs = Vec::new();
        if self.beat_at.is_some_and(|at| at <= now) {
            self.beat_at = Some(now.after(self.options.interval));
            outputs.push(Output::Beat);
        }
        for (node, peer) in &mut self.peers {
            if !peer.lost && peer.deadline(&self.options) <= now {
                peer.lost = true;
                outputs.push(Output::Lost(*node));
            }
        }
        outputs
    }

    /// Asks to be woken for what comes first, unless that is asked for already. A timer that comes
    /// too early, because a peer has spoken since, does no harm.
    fn arm(&mut self) -> Option<Output> {
        let watched = self.peers.values().filter(|peer| !peer.lost);
        let deadlines = watched.map(|peer| peer.deadline(&self.options));
        let at = deadlines.chain(self.beat_at).min()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        Some(Output::SetTimer { timer: Timer::WordDue, at })
    }

    /// Whether a peer is watched and lost.
    pub fn is_lost(&self, peer: NodeId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.lost)
    }

    /// How long a peer has been silent, if it is watched.
    pub fn silence(&self, now: Time, peer: NodeId) -> Option<Duration> {
        self.peers.get(&peer).map(|peer| now.since(peer.heard))
    }

    /// How long a peer may be silent at present, if it is watched.
    pub fn patience(&self, peer: NodeId) -> Option<Duration> {
        self.peers.get(&peer).map(|peer| peer.patience(&self.options))
    }
}

impl Watched {
    /// Moves the usual gap an eighth towards this one, and the usual distance from it a quarter.
    fn learn(&mut self, gap: Duration) {
        self.usual = Some(match self.usual {
            None => (gap, Duration::ZERO),
            Some((mean, deviation)) => {
                (towards(mean, gap, 8), towards(deviation, gap.abs_diff(mean), 4))
            }
        });
    }

    fn patience(&self, options: &Options) -> Duration {
        let (mean, deviation) = self.usual.unwrap_or_default();
        let adapted = mean.saturating_add(deviation.saturating_mul(4));
        adapted.clamp(options.timeout, options.timeout.saturating_mul(PATIENCE_MAX))
    }

    fn deadline(&self, options: &Options) -> Time {
        self.heard.after(self.patience(options))
    }
}

fn towards(from: Duration, to: Duration, parts: u32) -> Duration {
    if from < to { from + (to - from) / parts } else { from - (from - to) / parts }
}

fn earlier(time: Time, by: Duration) -> Time {
    let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
    Time::from_micros(time.as_micros().saturating_sub(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options =
        Options { interval: Duration::from_millis(100), timeout: Duration::from_millis(500) };
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn at(millis: u64) -> Time {
        Time::from_millis(10_000 + millis)
    }

    fn timer(millis: u64) -> Output {
        Output::SetTimer { timer: Timer::WordDue, at: at(millis) }
    }

    fn watching(peers: &[NodeId]) -> Detector {
        let mut detector = Detector::new(OPTIONS);
        for peer in peers {
            detector.step(at(0), Input::Watch(*peer));
        }
        detector
    }

    /// Fires the timer whenever it is due, up to and including `until`, and gives what came of it.
    fn run(detector: &mut Detector, until: u64) -> Vec<(u64, Output)> {
        let mut happened = Vec::new();
        while let Some(due) = detector.armed.filter(|due| *due <= at(until)) {
            let outputs = detector.step(due, Input::TimerFired(Timer::WordDue));
            let news = outputs.into_iter().filter(|output| !is_routine(output));
            happened.extend(news.map(|output| (due.as_millis() - 10_000, output)));
        }
        happened
    }

    fn is_routine(output: &Output) -> bool {
        matches!(output, Output::Beat | Output::SetTimer { .. })
    }

    /// Words of `A` at these gaps, the timer firing in between. Gives when the last one came.
    fn hear_at(detector: &mut Detector, gaps: &[u64]) -> u64 {
        let mut now = 0;
        for gap in gaps {
            now += gap;
            run(detector, now);
            detector.step(at(now), Input::Heard(A));
        }
        now
    }

    #[test]
    fn speaks_at_the_interval_as_long_as_it_watches() {
        let mut detector = Detector::new(OPTIONS);
        assert_eq!(detector.step(at(0), Input::Watch(A)), [Output::Beat, timer(100)]);
        assert_eq!(detector.step(at(0), Input::Watch(B)), []);
        let due = Input::TimerFired(Timer::WordDue);
        assert_eq!(detector.step(at(100), due), [Output::Beat, timer(200)]);
        detector.step(at(150), Input::Unwatch(A));
        detector.step(at(150), Input::Unwatch(B));
        assert_eq!(detector.step(at(200), due), []);
    }

    #[test]
    fn loses_a_peer_that_is_silent_for_the_timeout() {
        let mut detector = watching(&[A, B]);
        detector.step(at(90), Input::Heard(B));
        assert_eq!(run(&mut detector, 589), [(500, Output::Lost(A))]);
        assert!(detector.is_lost(A) && !detector.is_lost(B));
        assert_eq!(run(&mut detector, 590), [(590, Output::Lost(B))]);
        assert_eq!(run(&mut detector, 5000), []);
    }

    #[test]
    fn a_peer_that_speaks_again_is_back_and_can_be_lost_again() {
        let mut detector = watching(&[A]);
        run(&mut detector, 3000);
        let outputs = detector.step(at(3050), Input::Heard(A));
        assert!(outputs.contains(&Output::Back(A)), "{outputs:?}");
        assert_eq!(detector.patience(A), Some(OPTIONS.timeout));
        assert_eq!(run(&mut detector, 4000), [(3550, Output::Lost(A))]);
    }

    #[test]
    fn words_at_the_interval_keep_the_configured_timeout() {
        let mut detector = watching(&[A]);
        hear_at(&mut detector, &[100; 50]);
        assert_eq!(detector.patience(A), Some(OPTIONS.timeout));
    }

    #[test]
    fn waits_longer_for_whoever_speaks_irregularly() {
        let mut detector = watching(&[A]);
        let last = hear_at(&mut detector, &[20, 480].repeat(10));
        let patience = detector.patience(A).unwrap();
        assert!(OPTIONS.timeout * 2 < patience, "{patience:?}");
        assert_eq!(run(&mut detector, last + 600), []);
        let lost = run(&mut detector, last + 2000);
        assert_eq!(lost.len(), 1);
        // Regular words bring the patience down again.
        detector.step(at(last + 2000), Input::Heard(A));
        for word in 1..60 {
            run(&mut detector, last + 2000 + word * 100);
            detector.step(at(last + 2000 + word * 100), Input::Heard(A));
        }
        assert_eq!(detector.patience(A), Some(OPTIONS.timeout));
    }

    #[test]
    fn nobody_earns_patience_without_end() {
        let mut watched = Watched { heard: at(0), usual: None, lost: false };
        for gap in [1, 100_000].repeat(20) {
            watched.learn(Duration::from_millis(gap));
        }
        assert_eq!(watched.patience(&OPTIONS), OPTIONS.timeout * PATIENCE_MAX);
        watched.learn(Duration::MAX);
        watched.learn(Duration::MAX);
        assert_eq!(watched.patience(&OPTIONS), OPTIONS.timeout * PATIENCE_MAX);
    }

    #[test]
    fn blames_nobody_for_its_own_stall() {
        let mut detector = watching(&[A]);
        hear_at(&mut detector, &[100; 5]);
        // The timer of 600 ms fires at 5600 ms; words wait in the queue meanwhile.
        let outputs = detector.step(at(5600), Input::TimerFired(Timer::WordDue));
        assert_eq!(outputs, [Output::Beat, timer(5700)]);
        detector.step(at(5601), Input::Heard(A));
        assert_eq!(detector.patience(A), Some(OPTIONS.timeout), "the stall is no gap of the peer");
        assert_eq!(run(&mut detector, 7000), [(6101, Output::Lost(A))]);
    }

    #[test]
    fn a_stall_only_puts_off_the_loss_of_the_dead() {
        let mut detector = watching(&[A]);
        run(&mut detector, 300);
        detector.step(at(2400), Input::TimerFired(Timer::WordDue));
        // Of the timeout 400 ms had passed when the timer was due.
        assert_eq!(run(&mut detector, 9000), [(2500, Output::Lost(A))]);
    }

    #[test]
    fn a_word_that_is_read_before_the_late_timer_is_no_irregular_one() {
        let mut detector = watching(&[A]);
        hear_at(&mut detector, &[100; 20]);
        detector.step(at(9000), Input::Heard(A));
        assert_eq!(detector.patience(A), Some(OPTIONS.timeout));
    }

    #[test]
    fn timers_that_are_a_little_late_do_not_add_up() {
        let mut detector = watching(&[A]);
        let mut now = 0;
        while !detector.is_lost(A) {
            now = detector.armed.unwrap().as_millis() - 10_000 + 90;
            detector.step(at(now), Input::TimerFired(Timer::WordDue));
        }
        assert!(now <= 700, "{now} ms");
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_alive() {
        let mut detector = watching(&[A]);
        run(&mut detector, 300);
        // It is nine seconds earlier now, and the timer that was set would be nine seconds late.
        let outputs = detector.step(Time::from_millis(1300), Input::Heard(B));
        let again = Time::from_millis(1400);
        assert_eq!(outputs, [Output::SetTimer { timer: Timer::WordDue, at: again }]);
        let due = Input::TimerFired(Timer::WordDue);
        assert!(!detector.step(Time::from_millis(1400), due).contains(&Output::Lost(A)));
        assert!(detector.step(Time::from_millis(1500), due).contains(&Output::Lost(A)));
    }

    #[test]
    fn whoever_is_not_watched_is_not_heard() {
        let mut detector = watching(&[A]);
        assert_eq!(detector.step(at(50), Input::Heard(B)), []);
        assert_eq!(detector.silence(at(50), B), None);
        assert_eq!(detector.silence(at(50), A), Some(Duration::from_millis(50)));
    }
}
