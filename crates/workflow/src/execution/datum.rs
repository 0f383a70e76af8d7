//! Data inside an execution: small values in place, large ones once, by digest.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};
use outlast_expressions::Value;
use outlast_expressions::value::{self, Deferred};
use outlast_lineage::Digest;

/// Values heavier than this are held once per execution, and named by their digest elsewhere.
pub(crate) const LARGE: usize = 64 * 1024;

/// The same for values that are copied or rewritten again and again: contexts, which every branch is
/// born with, and the lists of loops, which stand in a frame that each iteration changes.
const SHARED: usize = 1024;

/// How much data one execution may hold in large values: with what one step adds it still fits into
/// one record.
pub const DATA_BYTES_MAX: usize = 24 * 1024 * 1024;

/// The same where several nodes hold it: all of it, with what one step adds, must fit into one message
/// between them (32 MiB).
pub const SHARED_DATA_BYTES_MAX: usize = 14 * 1024 * 1024;

/// A value in an execution.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) enum Datum {
    /// In place.
    #[n(0)]
    Small(#[n(0)] Deferred),
    /// In the execution's store of large values.
    #[n(1)]
    Large(#[n(0)] Digest),
}

impl Default for Datum {
    fn default() -> Self {
        Self::null()
    }
}

impl Datum {
    /// The null value.
    pub(crate) fn null() -> Self {
        Self::small(Value::Null)
    }

    /// A value that is known to be small.
    pub(crate) fn small(value: Value) -> Self {
        Self::Small(value.into())
    }

    /// Whether it is the null value.
    pub(crate) const fn is_null(&self) -> bool {
        match self {
            Self::Small(value) => value.is_null(),
            Self::Large(_) => false,
        }
    }

    /// Whether another is known to be the same without a look into what they hold.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Small(one), Self::Small(other)) => one.is_same(other),
            (Self::Large(one), Self::Large(other)) => one == other,
            _ => false,
        }
    }
}

/// A large value, held once.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct Large(#[cbor(n(0), with = "value::codec")] pub(crate) Value);

/// The large values of one execution.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct LargeValues {
    #[n(0)]
    values: BTreeMap<Digest, Large>,
    /// How many there were after the last sweep; the next one comes when there are twice as many.
    #[n(1)]
    after_sweep: u64,
    #[cbor(skip)]
    touch: LargeTouch,
    /// How heavy each of them is, as far as that was asked.
    #[cbor(skip)]
    weights: BTreeMap<Digest, usize>,
}

/// What a step added to and took from the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct LargeTouch {
    pub(crate) added: BTreeSet<Digest>,
    pub(crate) removed: BTreeSet<Digest>,
}

impl PartialEq for LargeValues {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl LargeValues {
    /// Takes a value in: large ones move to the store.
    pub(crate) fn intern(&mut self, value: Value) -> Datum {
        self.intern_above(LARGE, value)
    }

    /// Takes in a value that is copied or rewritten again and again.
    pub(crate) fn share(&mut self, value: Value) -> Datum {
        self.intern_above(SHARED, value)
    }

    fn intern_above(&mut self, limit: usize, value: Value) -> Datum {
        if value::weight(&value, limit) <= limit {
            return Datum::small(value);
        }
        let digest = Digest::of(value::to_text(&value).as_bytes());
        if self.values.insert(digest, Large(value)).is_none() && !self.touch.removed.remove(&digest)
        {
            self.touch.added.insert(digest);
        }
        Datum::Large(digest)
    }

    /// The value of a datum.
    pub(crate) fn value(&self, datum: &Datum) -> Value {
        match datum {
            Datum::Small(value) => value.value().clone(),
            Datum::Large(digest) => {
                self.values.get(digest).expect("a datum names a value in the store").0.clone()
            }
        }
    }

    /// How heavy all of them are together.
    pub(crate) fn bytes(&mut self) -> usize {
        self.weights.retain(|digest, _| self.values.contains_key(digest));
        for (digest, Large(value)) in &self.values {
            let weigh = || value::weight(value, usize::MAX);
            self.weights.entry(*digest).or_insert_with(weigh);
        }
        self.weights.values().sum()
    }

    /// Whether this step has added some.
    pub(crate) fn has_grown(&self) -> bool {
        !self.touch.added.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether enough has been added since the last sweep to make another one worth its cost.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.values.len() as u64 > 8 + 2 * self.after_sweep
    }

    /// Drops everything that is not named any more.
    pub(crate) fn sweep(&mut self, named: &BTreeSet<Digest>) {
        let dropped: Vec<Digest> =
            self.values.keys().filter(|digest| !named.contains(digest)).copied().collect();
        for digest in dropped {
            self.values.remove(&digest);
            if !self.touch.added.remove(&digest) {
                self.touch.removed.insert(digest);
            }
        }
        self.after_sweep = self.values.len() as u64;
    }

    /// What changed since this was last asked: added values, removed digests.
    pub(crate) fn take_changes(&mut self) -> (Vec<(Digest, Large)>, Vec<Digest>) {
        let touch = std::mem::take(&mut self.touch);
        let added = touch.added.into_iter().map(|digest| (digest, self.values[&digest].clone()));
        (added.collect(), touch.removed.into_iter().collect())
    }

    /// Takes over what another copy's step changed.
    pub(crate) fn apply(&mut self, added: Vec<(Digest, Large)>, removed: &[Digest]) {
        self.values.extend(added);
        for digest in removed {
            self.values.remove(digest);
        }
        if !removed.is_empty() {
            self.after_sweep = self.values.len() as u64;
        }
    }

    /// The values with these digests, for a branch that moves away.
    pub(crate) fn subset(&self, named: &BTreeSet<Digest>) -> Self {
        let values = self.values.iter().filter(|(digest, _)| named.contains(digest));
        Self { values: values.map(|(d, v)| (*d, v.clone())).collect(), ..Self::default() }
    }

    /// Takes in the values of a branch that comes back.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (digest, large) in &other.values {
            if self.values.insert(*digest, large.clone()).is_none() {
                self.touch.added.insert(*digest);
            }
        }
    }
}
