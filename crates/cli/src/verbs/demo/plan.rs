//! What is broken when, drawn from a seed.

use outlast_simulator::Random;

/// What is broken when. Moments are steps of the flow, so that a slow machine sees the same story.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// The primary is killed when this step is done.
    pub(super) first_kill: u64,
    /// The nodes that are left are cut apart so many steps after another one has taken over.
    pub(super) until_cut: u64,
    /// They stay apart until the side that is furthest has done so many steps.
    pub(super) apart: u64,
    /// The primary of that time is killed when this step is done.
    pub(super) second_kill: u64,
    /// Who is killed comes back so many steps after another one has taken over.
    pub(super) away: u64,
    /// The nodes in the order in which they are dealt to the sides.
    order: Vec<usize>,
    /// How many sides a cut makes.
    sides: usize,
}

impl Plan {
    /// Draws a plan for a cluster and a flow.
    pub(super) fn draw(seed: u64, nodes: usize, steps: u64) -> Self {
        let mut random = Random::new(seed);
        let mut around = |percent: u64| {
            let exact = steps * percent / 100;
            let spread = steps / 20;
            random.between(exact.saturating_sub(spread), exact + spread).max(1)
        };
        let (first_kill, until_cut) = (around(13), around(8));
        let (apart, second_kill) = (around(18), around(72));
        let away = around(10);
        let mut order: Vec<usize> = (0..nodes).collect();
        for place in (1..nodes).rev() {
            order.swap(place, random.index(place + 1));
        }
        let sides = if 4 < nodes && random.happens(250) { 3 } else { 2 };
        Self { first_kill, until_cut, apart, second_kill, away, order, sides }
    }

    /// Who is on which side of a cut. Every side has someone who lives.
    pub(super) fn sides(&self, dead: Option<usize>) -> Vec<Vec<usize>> {
        let mut sides = vec![Vec::new(); self.sides];
        let (away, alive): (Vec<usize>, Vec<usize>) =
            self.order.iter().partition(|node| Some(**node) == dead);
        for (turn, node) in alive.into_iter().chain(away).enumerate() {
            sides[turn % self.sides].push(node);
        }
        sides.iter_mut().for_each(|side| side.sort_unstable());
        sides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_breaks_the_same() {
        assert_eq!(Plan::draw(7, 5, 40), Plan::draw(7, 5, 40));
        assert_ne!(Plan::draw(7, 5, 40), Plan::draw(8, 5, 40));
    }

    #[test]
    fn whatever_the_seed_things_break_in_order_and_before_the_end() {
        for seed in 0..200 {
            for (nodes, steps) in [(3, 12), (5, 12), (5, 40), (9, 100)] {
                let plan = Plan::draw(seed, nodes, steps);
                assert!(plan.first_kill + plan.until_cut + plan.apart < steps, "{plan:?}");
                assert!(plan.first_kill < plan.second_kill, "{plan:?}");
                assert!(plan.second_kill < steps, "{plan:?}");
            }
        }
    }

    #[test]
    fn every_side_of_a_cut_has_someone_who_lives() {
        for seed in 0..200 {
            for nodes in 3..=9 {
                let dead = nodes - 1;
                let sides = Plan::draw(seed, nodes, 40).sides(Some(dead));
                assert!(sides.iter().all(|side| side.iter().any(|node| *node != dead)));
                assert_eq!(sides.iter().map(Vec::len).sum::<usize>(), nodes);
            }
        }
    }
}
