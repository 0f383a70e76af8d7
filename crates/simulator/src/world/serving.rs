//! What reaches services, nodes and the client.

use outlast_engine::{Caller, Input};
use outlast_workflow::{Answer, Fault, FaultKind};

use super::occurrence::{Answered, Call, Occurrence, Parcel};
use super::{Situation, World, words};
use crate::machine::Told;
use crate::services::operation_of;

/// How many messages in a thousand that were on their way when their link was cut arrive.
const SLIPS_THROUGH_PER_MILLE: u64 = 500;

impl World {
    /// A call reaches its service.
    pub(super) fn reached(&mut self, call: Call) {
        let Call { place, life, node, execution, of, ticket, request, made_on } = call;
        let fails = self.random.happens(self.errors_per_mille);
        let visited = self.services.visit(self.now, node, of, &request, fails);
        if self.options.trace {
            let (operation, how) = (operation_of(&request.target), words::of_visit(&visited));
            self.say_of(place, of, format_args!("its service {how}: {operation}"));
        }
        if let Some(finding) = visited.finding {
            self.found(finding);
        }
        self.learn_visit(of, &request);
        if visited.repeated {
            self.saw(Situation::Deduplicated);
        }
        if visited.repeated || visited.act.is_some() {
            self.services.ledger.made_on(of, request.key, made_on);
        }
        if fails && visited.act.is_none() && !visited.repeated {
            self.saw(Situation::ServiceFailed);
        }
        if let Some(act) = visited.act {
            let waits = self.is_alive(place, life);
            if !waits || self.machines[place].acted(execution, ticket, act) {
                self.services.ledger.doubt(act);
            }
            self.saw_act(act);
            self.learn_act(act, &request.key_text());
            self.judge_act(act);
        }
        self.send_answer(Answered {
            place,
            life,
            execution,
            of,
            ticket,
            answer: visited.answer,
            act: visited.act,
        });
    }

    /// A service did something.
    fn saw_act(&mut self, act: usize) {
        let ledger = &self.services.ledger;
        let (undo, repeats) = (ledger.act(act).undo, ledger.repeats(ledger.act(act)));
        if undo {
            self.saw(Situation::Undone);
        }
        if !self.services.deduplicating && repeats {
            self.saw(Situation::ActedAgain);
        }
    }

    fn send_answer(&mut self, mut answered: Answered) {
        let at = if self.random.happens(self.lost_per_mille) {
            self.saw(Situation::AnswerLost);
            if let Some(act) = answered.act.take() {
                self.services.ledger.doubt(act);
                self.machines[answered.place].answer_lost(act);
            }
            let kind = FaultKind::Communication;
            let fault = Fault::new(kind, "No answer", "the answer was lost on its way");
            answered.answer = Answer::Unknown(fault);
            self.soon(1_000_000, 2_000_000)
        } else {
            self.drawn(self.service)
        };
        self.agenda.note(at, Occurrence::Answered(Box::new(answered)));
    }

    /// An answer reaches a node.
    pub(super) fn answered(&mut self, answered: Answered) {
        let Answered { place, life, execution, of, ticket, answer, act } = answered;
        if !self.is_alive(place, life) {
            return;
        }
        let machine = &mut self.machines[place];
        if 0 < machine.calls {
            machine.calls -= 1;
            self.calls -= 1;
        }
        self.say_of(place, of, format_args!("is answered {}", words::of_answer(&answer)));
        self.give(place, Told::Answered(Input::Answered { execution, ticket, answer }, act));
    }

    /// A message reaches a node.
    pub(super) fn arrived(&mut self, parcel: Parcel) {
        let Parcel { from: (from, sender), to: (to, receiver), life, message } = parcel;
        if self.network.is_cut(from, to) {
            if !self.random.happens(SLIPS_THROUGH_PER_MILLE) {
                return self.saw(Situation::MessageCut);
            }
            self.saw(Situation::MessageSlippedThrough);
        }
        let machine = &self.machines[to];
        if machine.id() != receiver || !machine.node.is_up() {
            return;
        }
        if machine.node.life != life {
            self.saw(Situation::MessageToNextLife);
        }
        if self.options.gossip {
            if self.machines[to].removed.contains(&sender) {
                return;
            }
            // Whoever was heard can be answered on the same channel.
            self.meets(to, sender);
        }
        if self.options.trace {
            let what = words::of_message(&message);
            self.say(Some(to), format_args!("from node {}: {what}", sender.0));
        }
        self.tell(to, Input::Received { from: sender, message });
    }

    /// The client asks for something, at a node that is up.
    pub(crate) fn wished(&mut self, wish: usize) {
        if !self.client.wants(wish) {
            return;
        }
        let hint = self.client.takes_hint(wish);
        let hint = hint.filter(|place| self.machines[*place].node.is_up());
        let place = match self.client.place_of(wish) {
            Some(place) => Some(place).filter(|place| self.machines[*place].node.is_up()),
            None => hint.or_else(|| self.any_place()),
        };
        let Some(place) = place else {
            let at = self.soon(10_000, 200_000);
            return self.agenda.note(at, Occurrence::Wished(wish));
        };
        let (caller, ask) = self.client.ask(wish, place);
        if self.options.trace {
            self.say(Some(place), format_args!("is asked {}", words::of_ask(&ask)));
        }
        if self.client.place_of(wish).is_none() {
            let at = self.now.after(self.options.client_patience);
            self.agenda.note(at, Occurrence::Overdue(caller));
        }
        self.tell(place, Input::Asked { caller, ask });
    }

    pub(super) fn any_place(&mut self) -> Option<usize> {
        let up: Vec<usize> =
            (0..self.machines.len()).filter(|place| self.machines[*place].node.is_up()).collect();
        if up.is_empty() { None } else { Some(*self.random.pick(&up)) }
    }

    /// The client has waited for long enough, and turns to another node.
    pub(super) fn overdue(&mut self, caller: Caller) {
        let Some((wish, place)) = self.client.tires(caller) else { return };
        self.saw(Situation::AskedElsewhere);
        self.tell(place, Input::CallerLeft(caller));
        self.wished(wish);
    }
}
