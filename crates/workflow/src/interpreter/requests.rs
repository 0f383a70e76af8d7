//! Naming a call: what it is, under which key it goes, and whether it was asked for before.

use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, Digester, Effect, EffectId, OperationKey, Point};

use super::Machine;
use super::composite::alternatives_used;
use super::conduct::{said_of, start_of_call};
use super::evaluation::Sight;
use crate::execution::{Activity, Branch, Calling, Frame, Path, PlanEntry};
use crate::program::{Class, Service, Task};
use crate::{Fault, Request, Target, build_http, scalar_text};

impl<'a> Machine<'a> {
    pub(super) fn target(
        &self,
        branch: &Branch,
        service: &Service,
        arguments: Value,
        input: &Value,
    ) -> Result<Target, Fault> {
        match service {
            Service::Http { output, redirect, authentication } => {
                let authentication = authentication
                    .as_ref()
                    .map(|given| self.authentication(branch, given, input))
                    .transpose()?;
                build_http(&arguments, input, *output, *redirect, authentication)
            }
            Service::Catalog { name, version } => {
                Ok(Target::Catalog { name: name.clone(), version: version.clone(), arguments })
            }
        }
    }

    /// Names the call: the same key for the same request at the same place, until it is answered.
    /// Says too whether it was asked for before without an answer.
    pub(super) fn request(
        &mut self,
        branch: &mut Branch,
        target: Target,
    ) -> Result<(Request, bool), Fault> {
        let digest = digest_of(&target);
        let path = branch.top().expect("a task calls").path;
        if let Some(request) = self.take_uncertain(branch, path, &digest) {
            if !self.is_debt_of_another(branch.frames(), &request) {
                return Ok((request, true));
            }
            self.effect_disowned(request.effect);
        }
        let idempotency = self.trait_of(branch, |task| task.traits.idempotency.as_ref());
        let class = self.trait_of(branch, |task| task.traits.class);
        let (effect, undone) = (new_effect(branch), self.undone_effect(branch));
        let request = Request {
            effect,
            key: self.key(branch, &digest, effect),
            own_key: self.own_key(branch)?,
            key_header: idempotency.and_then(|idempotency| idempotency.header.clone()),
            deadline: branch.deadline(),
            readonly: class == Some(Class::Readonly),
            undo: branch.undo().is_some(),
            target,
            salt: self.execution.salt,
            undoes: undone.map(|effect| effect.key),
            own_undoes: undone.and_then(|effect| effect.own_key.clone()),
        };
        Ok((request, false))
    }

    /// The key of a request by the innermost task as it is tried now.
    fn key(&self, branch: &Branch, request: &Digest, effect: EffectId) -> OperationKey {
        let path = branch.top().expect("a task calls").path;
        let incarnation = self.incarnation(branch);
        let mut place = Digester::new("place").field(path.digest().as_bytes()).number(incarnation);
        let revivals = self.revivals(branch);
        if 0 < revivals {
            place = place.number(revivals);
        }
        let idempotency = self.trait_of(branch, |task| task.traits.idempotency.as_ref());
        if idempotency.is_some_and(|idempotency| idempotency.none) {
            // It is asked once for each effect: its key says which of several lines asked, and when.
            let Point { author, epoch, number } = effect.point;
            place = place.number(author.0).number(epoch.0).number(number).number(effect.branch.0);
        }
        OperationKey::new(self.execution.id, &place.finish(), request)
    }

    /// The effect of the call that the innermost undo undoes.
    fn undone_effect(&self, branch: &Branch) -> Option<&Effect> {
        self.execution.ledger.get(&branch.undo()?.effect?)
    }

    /// The call of the innermost task as a new operation and a new effect.
    pub(super) fn renewed(&self, branch: &mut Branch, calling: &Calling) -> Request {
        branch.top_mut().expect("a task calls").tries += 1;
        let request = calling.whole_request(&self.execution.large);
        let effect = new_effect(branch);
        let key = self.key(branch, &digest_of(&request.target), effect);
        Request { effect, key, ..request }
    }

    /// The key that the document gives the call. An alternative is another operation, which may be made at the same
    /// provider: unless it has a key of its own, that of the call whose place it takes is told apart from it.
    fn own_key(&self, branch: &Branch) -> Result<Option<String>, Fault> {
        let frames = &branch.frames()[start_of_call(branch.frames())..];
        let said = |frame: &Frame| self.program.task(frame.task).traits.idempotency.as_ref();
        let Some(place) = frames.iter().rposition(|frame| said(frame).is_some()) else {
            return Ok(None);
        };
        let Some(template) = said(&frames[place]).and_then(|it| it.key.as_ref()) else {
            return Ok(None);
        };
        let sight = Sight::from_top(branch, self.value(branch.data()));
        let key = self.evaluate_template_here(branch, template, &sight)?;
        let mut key = scalar_text(&key).unwrap_or_else(|| value::to_text(&key));
        for alternative in frames[place..].iter().map(alternatives_used).filter(|used| 0 < *used) {
            key.push_str(&format!("-alternative-{alternative}"));
        }
        Ok(Some(key))
    }

    pub(super) fn trait_of<T>(
        &self,
        branch: &Branch,
        of: impl Fn(&'a Task) -> Option<T>,
    ) -> Option<T> {
        said_of(self.program, branch.frames(), of)
    }

    /// A number that differs between attempts that were definitely answered. An undo is one operation
    /// until it is done, wherever and however often it is tried: another line may undo the same
    /// effect, and knows nothing of refusals. Only a person can say that it is to be a new one.
    pub(super) fn incarnation(&self, branch: &Branch) -> u64 {
        let frames = branch.frames();
        let undo = frames.iter().rposition(|it| matches!(it.activity, Activity::Undoing(_)));
        match (undo, branch.birth.undo) {
            (Some(depth), _) => counted(0, &frames[depth..=depth], |_| 0),
            (None, Some(_)) => branch.birth.incarnation,
            (None, None) => counted(branch.birth.incarnation, frames, retries),
        }
    }

    /// After how many revivals the calls of a branch are asked for first. What a lost line asked for, and undid,
    /// its provider would only answer again; what this line may have asked for itself is to be answered again.
    fn revivals(&self, branch: &Branch) -> u64 {
        let latest = self.execution.head.revivals.unwrap_or(0);
        // An undo goes by the key of what it undoes (`incarnation_of_undo`).
        if latest == 0 || branch.undo().is_some() {
            return 0;
        }
        let asked_after =
            |branch: &Branch| branch.frames().iter().rev().find_map(|frame| frame.asked_after);
        let parent = |branch: &Branch| self.execution.branches.get(&branch.birth.parent?);
        let around = std::iter::successors(parent(branch), |branch| parent(branch));
        asked_after(branch).or_else(|| around.into_iter().find_map(asked_after)).unwrap_or(latest)
    }

    /// The request of an earlier attempt at this place of which it is not known what became.
    fn take_uncertain(
        &mut self,
        branch: &mut Branch,
        path: Path,
        digest: &Digest,
    ) -> Option<Request> {
        if let Some((depth, index)) = self.find_uncertain(branch, path, digest) {
            return Some(self.remove_uncertain(branch, depth, index));
        }
        let mut parent = branch.birth.parent;
        while let Some(id) = parent {
            let around = self.execution.branches.get(&id)?;
            parent = around.birth.parent;
            if let Some((depth, index)) = self.find_uncertain(around, path, digest) {
                let mut around = self.take(id)?;
                let request = self.remove_uncertain(&mut around, depth, index);
                self.put(around);
                return Some(request);
            }
        }
        None
    }

    /// Where a branch remembers an unanswered call of this place and request: depth and index.
    fn find_uncertain(
        &self,
        branch: &Branch,
        path: Path,
        digest: &Digest,
    ) -> Option<(usize, usize)> {
        let is_it = |entry: &PlanEntry| {
            uncertain_call(entry).is_some_and(|(place, calling)| {
                let request = calling.whole_request(&self.execution.large);
                place == path && digest_of(&request.target) == *digest
            })
        };
        branch.frames().iter().enumerate().rev().find_map(|(depth, frame)| {
            let uncertain = match &frame.activity {
                Activity::Try(trying) => &trying.uncertain,
                Activity::Undoing(undoing) => &undoing.uncertain,
                _ => return None,
            };
            Some((depth, uncertain.iter().position(is_it)?))
        })
    }

    fn remove_uncertain(&self, branch: &mut Branch, depth: usize, index: usize) -> Request {
        let entry = match &mut branch.frame_mut(depth).activity {
            Activity::Try(trying) => trying.uncertain.remove(index),
            Activity::Undoing(undoing) => undoing.uncertain.remove(index),
            activity => unreachable!("{activity:?} remembers no calls"),
        };
        let (_, calling) = uncertain_call(&entry).expect("it was just found to be a call");
        calling.whole_request(&self.execution.large)
    }
}

/// How often the attempt that a frame makes was made before.
fn retries(frame: &Frame) -> u64 {
    match &frame.activity {
        Activity::Try(trying) => trying.retries,
        Activity::Undoing(undoing) => undoing.retries,
        _ => 0,
    }
}

/// A number for the attempts under way in some frames, from the outside in.
fn counted(start: u64, frames: &[Frame], retries: impl Fn(&Frame) -> u64) -> u64 {
    frames.iter().fold(start, |outside, frame| {
        let retries = retries(frame);
        if retries + frame.tries == 0 {
            return outside;
        }
        let digest = Digester::new("incarnation").number(outside).number(frame.path.0);
        digest.number(retries).number(frame.tries).finish().short()
    })
}

/// The effect that a call of this step has.
fn new_effect(branch: &Branch) -> EffectId {
    let point = branch.lineage.head().expect("a branch that is worked on has a state");
    EffectId { branch: branch.id(), point }
}

fn digest_of(target: &Target) -> Digest {
    Digest::of(&minicbor::to_vec(target).expect("writing to memory does not fail"))
}

/// The place and request of a call that may have happened.
pub(super) fn uncertain_call(entry: &PlanEntry) -> Option<(Path, &Calling)> {
    let PlanEntry::Uncertain(frames) = entry else { return None };
    let frame = frames.last()?;
    Some((frame.path, frame.activity.unanswered()?))
}
