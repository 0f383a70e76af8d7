//! The door: how many strangers may stand in it, and how often one may knock with a token.
//!
//! Whoever has not shown a certificate yet is a stranger. There is room for a certain number of them,
//! and for fewer from one address, so that nobody alone can keep members out. Beyond that, connections
//! are closed before a byte of them is read.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many attempts to join one address has within `ATTEMPTS_TIME`.
const ATTEMPTS_MAX: u32 = 60;
const ATTEMPTS_TIME: Duration = Duration::from_secs(10);
/// How many addresses attempts are counted for. When there are more, everyone waits.
const ADDRESSES_MAX: usize = 4096;

/// Who stands in the door.
pub(super) struct Door {
    strangers_max: usize,
    per_address_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    strangers: usize,
    per_address: BTreeMap<IpAddr, usize>,
    attempts: BTreeMap<IpAddr, (Instant, u32)>,
}

/// A place in the door, given back when it is dropped.
pub(super) struct Place {
    door: Arc<Door>,
    address: IpAddr,
}

impl Door {
    pub(super) fn new(strangers_max: usize, per_address_max: usize) -> Arc<Self> {
        Arc::new(Self { strangers_max, per_address_max, state: Mutex::default() })
    }

    /// A place for someone, if there is one.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut state = self.state();
        let here = state.per_address.get(&address).copied().unwrap_or_default();
        if self.strangers_max <= state.strangers || self.per_address_max <= here {
            return None;
        }
        state.strangers += 1;
        state.per_address.insert(address, here + 1);
        Some(Place { door: Arc::clone(self), address })
    }

    /// Whether someone at an address may try to join now; counts as an attempt.
    pub(super) fn may_join(&self, address: IpAddr, now: Instant) -> bool {
        let mut state = self.state();
        let attempts = &mut state.attempts;
        if ADDRESSES_MAX <= attempts.len() {
            attempts.retain(|_, (since, _)| now.duration_since(*since) < ATTEMPTS_TIME);
        }
        if ADDRESSES_MAX <= attempts.len() && !attempts.contains_key(&address) {
            return false;
        }
        let (since, count) = attempts.entry(address).or_insert((now, 0));
        if ATTEMPTS_TIME <= now.duration_since(*since) {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= ATTEMPTS_MAX
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.door.state();
        state.strangers -= 1;
        let here = state.per_address.get_mut(&self.address).expect("it was counted");
        *here -= 1;
        if *here == 0 {
            state.per_address.remove(&self.address);
        }
    }
}

/// Lets one line a second into the log, and counts those it keeps out.
#[derive(Default)]
pub(super) struct Throttle {
    state: Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    const PAUSE: Duration = Duration::from_secs(1);

    /// Whether to write a line now, and how many were left out since the last one.
    pub(super) fn admits(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.duration_since(last) < Self::PAUSE) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn one_address_cannot_fill_the_door() {
        let door = Door::new(3, 2);
        let first = door.enter(ONE);
        let second = door.enter(ONE);
        assert!(first.is_some() && second.is_some() && door.enter(ONE).is_none());
        let other = door.enter(OTHER);
        assert!(other.is_some() && door.enter(OTHER).is_none(), "the door is full");
        drop(first);
        assert!(door.enter(OTHER).is_some());
        drop((second, other));
        assert!(door.state().per_address.is_empty());
    }

    #[test]
    fn whoever_guesses_has_to_wait() {
        let door = Door::new(1, 1);
        let now = Instant::now();
        let allowed = (0..1000).filter(|_| door.may_join(ONE, now)).count();
        assert_eq!(allowed, ATTEMPTS_MAX as usize);
        assert!(door.may_join(OTHER, now));
        assert!(door.may_join(ONE, now + ATTEMPTS_TIME));
    }

    #[test]
    fn attempts_are_counted_for_a_bounded_number_of_addresses() {
        let door = Door::new(1, 1);
        let now = Instant::now();
        let address = |number: usize| IpAddr::from((number as u128).to_be_bytes());
        let allowed = (0..2 * ADDRESSES_MAX).filter(|n| door.may_join(address(*n), now)).count();
        assert_eq!(allowed, ADDRESSES_MAX);
        assert!(door.may_join(address(2 * ADDRESSES_MAX), now + ATTEMPTS_TIME));
        assert_eq!(door.state().attempts.len(), 1);
    }

    #[test]
    fn a_flood_leaves_one_line_a_second() {
        let throttle = Throttle::default();
        let now = Instant::now();
        assert_eq!(throttle.admits(now), Some(0));
        assert_eq!((0..100).filter_map(|_| throttle.admits(now)).count(), 0);
        assert_eq!(throttle.admits(now + Throttle::PAUSE), Some(100));
    }
}
