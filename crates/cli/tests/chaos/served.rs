//! Kill -9 of nodes whose executions wait for someone: for events from outside, and for a person who
//! says what became of a parked call.
//!
//! `OUTLAST_NODE_KILLS` says how many kills, `OUTLAST_NODE_SEED` repeats one seed.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Behaviour, Traffic};
use serde_json::json;

use crate::flows::{End, SERVED};
use crate::judge::{self, Course};
use crate::kills::{Suite, number};
use crate::life::Waited;
use crate::person::Person;
use crate::plan::{Death, Plan, When};
use crate::server::Server;
use crate::world::{PATIENCE, World, table};

/// How many kills are made unless something else is said.
const KILLS: u64 = 45;
/// How long a life goes on when the calls that its death waits for do not come.
const QUIET: Duration = Duration::from_millis(600);

/// What the kills must have met to mean anything.
const INTERESTING: [&str; 5] = [
    "while it waits for an event",
    "after an event was acknowledged",
    "while a call is parked",
    "after it was said what became of a call",
    "after what was broken is repaired",
];

#[test]
fn no_kill_loses_an_event_or_what_a_person_said() {
    let suite = Suite::default();
    if let Some(seed) = number("OUTLAST_NODE_SEED") {
        return try_seed(&suite, seed);
    }
    let wanted = number("OUTLAST_NODE_KILLS").unwrap_or(KILLS);
    let wanted_situations = if KILLS <= wanted { &INTERESTING[..] } else { &[] };
    let begin = Instant::now();
    suite.go_on_until(wanted, wanted_situations, |seed| try_seed(&suite, seed));
    suite.report(begin.elapsed());
}

fn try_seed(suite: &Suite, seed: u64) {
    let (flow, plan) = Plan::among(&SERVED, seed);
    let mut world = World::new(flow);
    let told = Trial { suite, seed, person: Person::new(&world), world: &world }.run(&plan);
    if let Err(problems) = told {
        let kept = world.keep().display().to_string();
        panic!("{problems}plan: {plan:?}\ndata kept in {kept}\n");
    }
    suite.executions.fetch_add(1, Ordering::Relaxed);
}

/// One execution, over all lives of the node that holds it.
struct Trial<'a> {
    suite: &'a Suite,
    seed: u64,
    person: Person<'a>,
    world: &'a World,
}

impl Trial<'_> {
    fn run(&self, plan: &Plan) -> Result<(), String> {
        let mut kills = 0;
        let mut lives = plan.lives.iter();
        while self.person.end().is_none() {
            match lives.next() {
                Some(death) => kills += u64::from(self.live(Some(death))),
                None => assert!(!self.live(None), "only a death kills"),
            }
        }
        let flow = self.world.flow;
        let entries = self.world.settled_entries();
        let mut problems = judge::problems(flow, &entries, Course { disturbed: false, kills });
        problems.extend(self.person.problems());
        let end = self.person.end().unwrap_or_default();
        let expected = if flow.end == End::Completed { "completed" } else { "compensated" };
        if end != expected {
            problems.push(format!("{end}, not {expected}"));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(format!(
            "seed {}, flow {}, killed {kills} times:\n  {}\nledger:\n{}\
             repeat: OUTLAST_NODE_SEED={} cargo test -p outlast --test chaos served\n",
            self.seed,
            flow.name,
            problems.join("\n  "),
            table(&entries),
            self.seed,
        ))
    }

    /// One life of the node, to its death if it has one before the execution ends; tells if so.
    fn live(&self, death: Option<&Death>) -> bool {
        let ledger = &self.world.ledger;
        ledger.control(|control| {
            *control = death.map(Death::control).unwrap_or_default();
            if let Some(broken) = self.world.flow.broken.filter(|_| !self.person.has_repaired()) {
                let fails = Behaviour { fail: Some(409), ..Behaviour::default() };
                control.paths.insert(broken.to_owned(), fails);
            }
        });
        let before = ledger.traffic();
        let mut server = Server::start(self.world, &[]);
        self.begin(&server);
        let (gone, is_gone) = channel();
        let node = *server;
        std::thread::scope(|scope| {
            scope.spawn(move || self.person.attend(node, &is_gone));
            let waited = self.wait_for(death, &mut server, before);
            let ended = self.person.end().is_some();
            if !ended {
                assert!(waited == Waited::Holds, "stuck: {}", server.life.stderr());
                self.note_kill();
                assert!(server.life.kill().was_killed());
                self.suite.kills.fetch_add(1, Ordering::Relaxed);
            }
            drop(gone);
            !ended
        })
    }

    /// Sees that the node has the execution: the first life starts it, the others know it.
    fn begin(&self, server: &Server) {
        let defined = server.define(self.world).map(|answer| answer.0);
        assert!(matches!(defined, Some(200 | 201)), "{defined:?}");
        let (workflow, name) = (self.world.flow.name, self.world.id);
        let body = json!({ "namespace": "chaos", "workflow": workflow, "name": name, "input": {} });
        let begun = server.ask("POST", "/v1/executions", &body.to_string());
        assert!(matches!(begun, Some((200 | 201, _))), "{begun:?}");
    }

    /// Waits for the moment of death, or for the end of the execution.
    fn wait_for(&self, death: Option<&Death>, server: &mut Server, before: Traffic) -> Waited {
        let ended = || self.person.end().is_some();
        let traffic = || self.world.ledger.traffic();
        // Where nothing is called any more, because a person is awaited or slow, time goes on.
        let (calls, later) = match death.map(|death| death.when) {
            None => return server.life.until(PATIENCE, ended),
            Some(When::After(later)) => (0, later),
            Some(When::Arrived(more) | When::Recorded(more)) => (more, Duration::ZERO),
            Some(When::Answered(more, later)) => (more, later),
        };
        let come = || match death.map(|death| death.when) {
            Some(When::Arrived(_)) => before.arrived + calls <= traffic().arrived,
            Some(When::Recorded(_)) => before.recorded + calls <= traffic().recorded,
            _ => before.answered + calls <= traffic().answered,
        };
        server.life.until(QUIET, || come() || ended());
        match server.life.until(later, ended) {
            Waited::TimeOver => Waited::Holds,
            waited => waited,
        }
    }

    fn note_kill(&self) {
        let situations = &self.suite.situations;
        let entries = self.world.ledger.entries();
        let done = |name: &str| judge::deeds(&entries).any(|entry| entry.name == name);
        let told = self.world.flow.told;
        let due = told.iter().filter(|(deed, _)| done(deed)).count();
        let published = self.person.published();
        if published < due {
            situations.met("while it waits for an event");
        }
        if 0 < published && !done("finish") {
            situations.met("after an event was acknowledged");
        }
        if self.person.is_asked() {
            situations.met("while a call is parked");
        }
        if 0 < self.person.settled() {
            situations.met("after it was said what became of a call");
        }
        if self.person.has_repaired() {
            situations.met("after what was broken is repaired");
        }
    }
}
