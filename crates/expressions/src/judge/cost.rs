//! Upper bounds on what a term makes and does, as polynomials in the sizes of what it is given.
//!
//! The size of a value is the number of values and of bytes of text in it, at least one. A term gets
//! its input and its variables, whose sizes are the unknowns; the bound of a pipe is the bound of its
//! right side summed up over the outputs of its left side.

use std::collections::BTreeMap;

/// A size that a bound may depend on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Size {
    /// Of the input of the term.
    Input,
    /// Of all that the whole expression is given: its input and the variables from outside.
    Given,
    /// Of a variable bound by the expression, or of the accumulator of a fold.
    Local(usize),
}

/// A sum of products of sizes, with their factors: powers of each size to the factor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Bound(BTreeMap<BTreeMap<Size, u32>, u64>);

/// Beyond this many products a bound is too large in any case, and not worth computing with.
const PRODUCTS_MAX: usize = 64;

impl Bound {
    pub(super) fn constant(factor: u64) -> Self {
        Self(BTreeMap::from([(BTreeMap::new(), factor)]))
    }

    pub(super) fn size(size: Size) -> Self {
        Self(BTreeMap::from([(BTreeMap::from([(size, 1)]), 1)]))
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (product, factor) in &other.0 {
            let entry = sum.0.entry(product.clone()).or_default();
            *entry = entry.saturating_add(*factor);
        }
        sum.limited()
    }

    /// A bound that neither of the two exceeds.
    pub(super) fn at_least(&self, other: &Self) -> Self {
        let mut larger = self.clone();
        for (product, factor) in &other.0 {
            let entry = larger.0.entry(product.clone()).or_default();
            *entry = (*entry).max(*factor);
        }
        larger.limited()
    }

    pub(super) fn times(&self, other: &Self) -> Self {
        let mut result = Self::default();
        for (left, left_factor) in &self.0 {
            for (right, right_factor) in &other.0 {
                let mut product = left.clone();
                for (size, power) in right {
                    *product.entry(*size).or_default() += power;
                }
                let entry = result.0.entry(product).or_default();
                *entry = entry.saturating_add(left_factor.saturating_mul(*right_factor));
            }
        }
        result.limited()
    }

    pub(super) fn scaled(&self, factor: u64) -> Self {
        self.times(&Self::constant(factor))
    }

    /// This bound summed up over values that take the place of some sizes: there are `count` of them,
    /// and their sizes add up to `total`. (A sum of powers is at most the power of the sum.)
    pub(super) fn over(&self, sizes: &[Size], total: &Self, count: &Self) -> Self {
        let mut sum = Self::default();
        for (product, factor) in &self.0 {
            let power: u32 = sizes.iter().filter_map(|size| product.get(size)).sum();
            let rest: BTreeMap<Size, u32> = product
                .iter()
                .filter(|(size, _)| !sizes.contains(size))
                .map(|(s, p)| (*s, *p))
                .collect();
            let mut part = Self(BTreeMap::from([(rest, *factor)]));
            for _ in 0..power.min(4) {
                part = part.times(total);
            }
            if power == 0 {
                part = part.times(count);
            }
            sum = sum.plus(&part);
        }
        sum
    }

    /// The bound without the products that a size is part of, and the factor of that size alone, if
    /// no other product has it.
    pub(super) fn split(&self, size: Size) -> Option<(u64, Self)> {
        let (with, without): (BTreeMap<_, _>, BTreeMap<_, _>) =
            self.0.clone().into_iter().partition(|(product, _)| product.contains_key(&size));
        let alone = BTreeMap::from([(size, 1)]);
        let factor = with.get(&alone).copied().unwrap_or(0);
        (with.keys().all(|product| *product == alone)).then_some((factor, Self(without)))
    }

    pub(super) fn mentions(&self, size: Size) -> bool {
        self.0.keys().any(|product| product.contains_key(&size))
    }

    /// Whether this is one and no more, whatever the sizes.
    pub(super) fn is_at_most_one(&self) -> bool {
        self.0.iter().all(|(product, factor)| product.is_empty() && *factor <= 1)
    }

    pub(super) fn degree(&self) -> u32 {
        self.0.keys().map(|product| product.values().sum()).max().unwrap_or(0)
    }

    /// The sum of all factors.
    pub(super) fn factor(&self) -> u64 {
        self.0.values().fold(0, |sum, factor| sum.saturating_add(*factor))
    }

    /// A bound of too many products stands for "too large", which a high degree says as well.
    fn limited(self) -> Self {
        if self.0.len() <= PRODUCTS_MAX {
            return self;
        }
        Self(BTreeMap::from([(BTreeMap::from([(Size::Given, 9)]), u64::MAX)]))
    }
}

/// What a term can come to: how many outputs, how large they are together, and how much work.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) count: Bound,
    pub(super) total: Bound,
    pub(super) work: Bound,
}

impl Cost {
    /// One output of this constant size.
    pub(super) fn constant(size: u64) -> Self {
        let (one, size) = (Bound::constant(1), Bound::constant(size));
        Self { count: one, total: size.clone(), work: size }
    }

    /// One output of the smallest size.
    pub(super) fn scalar() -> Self {
        Self::constant(1)
    }

    /// One output that is the value of this size, or part of it; nothing is copied.
    pub(super) fn part_of(size: Size) -> Self {
        Self { total: Bound::size(size), ..Self::scalar() }
    }

    /// All elements of the input.
    pub(super) fn elements() -> Self {
        let input = Bound::size(Size::Input);
        Self { count: input.clone(), total: input.clone(), work: input }
    }

    /// One output made from the whole input, at most `factor` times as large.
    pub(super) fn whole(factor: u64) -> Self {
        let input = Bound::size(Size::Input).scaled(factor);
        Self { count: Bound::constant(1), total: input.clone(), work: input }
    }

    /// One output of constant size, found by looking at the whole input.
    pub(super) fn found() -> Self {
        Self { total: Bound::constant(1), ..Self::whole(1) }
    }

    /// Feeds each output of this into the other.
    pub(super) fn pipe(&self, then: &Self) -> Self {
        self.bind(&[Size::Input], then)
    }

    /// Does the other once per output of this, which takes the place of these sizes.
    pub(super) fn bind(&self, sizes: &[Size], then: &Self) -> Self {
        let over = |bound: &Bound| bound.over(sizes, &self.total, &self.count);
        Self {
            count: over(&then.count),
            total: over(&then.total),
            work: self.work.plus(&over(&then.work)),
        }
    }

    /// All pairs of outputs, each made into one value that holds both.
    pub(super) fn pairs(&self, other: &Self) -> Self {
        let total = self.total.times(&other.count).plus(&self.count.times(&other.total));
        let work = self.work.plus(&self.count.times(&other.work)).plus(&total);
        Self { count: self.count.times(&other.count), total, work }
    }

    /// All pairs of outputs compared. A comparison looks at no more than the smaller of the two, which
    /// is hardly ever the one that comes from all that is given.
    pub(super) fn compared(&self, other: &Self) -> Self {
        let (left, right) = (self.total.times(&other.count), self.count.times(&other.total));
        let looked_at = if left.mentions(Size::Given) { right } else { left };
        let count = self.count.times(&other.count);
        let work = self.work.plus(&self.count.times(&other.work)).plus(&looked_at).plus(&count);
        Self { total: count.clone(), count, work }
    }

    /// The outputs of one, or of the other, or of both one after the other.
    pub(super) fn either(&self, other: &Self) -> Self {
        Self {
            count: self.count.plus(&other.count),
            total: self.total.plus(&other.total),
            work: self.work.plus(&other.work),
        }
    }

    /// The outputs of one or of the other, but not of both.
    pub(super) fn one_of(&self, other: &Self) -> Self {
        Self {
            count: self.count.at_least(&other.count),
            total: self.total.at_least(&other.total),
            work: self.work.plus(&other.work),
        }
    }

    /// All outputs in one array.
    pub(super) fn collected(&self) -> Self {
        let one = Bound::constant(1);
        let work = self.work.plus(&self.total);
        Self { total: self.total.plus(&one), work, count: one }
    }

    /// The same outputs, each replaced by one of constant size.
    pub(super) fn reduced(&self) -> Self {
        Self { total: self.count.clone(), work: self.work.plus(&self.total), ..self.clone() }
    }

    /// At most one of the outputs.
    pub(super) fn at_most_one(&self) -> Self {
        Self { count: Bound::constant(1), ..self.clone() }
    }
}
