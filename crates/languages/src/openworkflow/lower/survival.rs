//! `survival`, `placement`, `join` and `stream`: recorded for the cluster, checked here.

use outlast_expressions::value;
use outlast_workflow::moment;
use outlast_workflow::program::survival::{REPLICAS, REPLICAS_MAX, refuse_election_wait};
use outlast_workflow::program::{Kind, Place, Task};

use super::Lowering;
use crate::Diagnostic;
use crate::openworkflow::scope::{Scope, Site};
use crate::text::{Cursor, closest, did_you_mean, listed};

/// Which parameters each strategy reads, besides `heartbeat`.
const PARAMETERS: [(&str, &[&str]); 7] = [
    ("none", &[]),
    ("passive", &["replicas", "electionWait", "acknowledge", "budget", "pivots"]),
    ("active", &["replicas", "electionWait", "pivots"]),
    (
        "partition-tolerant",
        &["replicas", "voteThreshold", "electionWait", "acknowledge", "budget", "pivots"],
    ),
    ("backups", &["backups"]),
    ("ring", &["ring"]),
    ("monitors", &["monitors"]),
];
/// Strategies that this release reads and does not know how to follow.
const NOT_FOLLOWED: [&str; 3] = ["backups", "ring", "monitors"];

impl<'a> Lowering<'a> {
    /// `document.metadata.outlast`.
    pub(super) fn document_block(&mut self, block: &Cursor<'a>) {
        if let Some(version) = block.get("version")
            && version.text().is_some_and(|text| !text.starts_with("1."))
        {
            let message = "this release reads version 1 of the `outlast` block";
            let found = Diagnostic::error("bad-value", version.place(), message);
            self.report(found.help("write `version: '1.0'`"));
        }
        self.survival(block);
        self.check_budget_counts(block);
        self.placement(block);
    }

    /// The parts of a task's block that single nodes do not read.
    pub(super) fn task_block(&mut self, task: &Cursor<'a>, block: &Cursor<'a>, scope: &Scope) {
        self.survival(block);
        if let Some(survival) = block.get("survival") {
            let message = "this release does not read `survival` of a task";
            let help = "that of the document holds for all of it";
            self.not_read(&survival.key_place(), message, help);
        }
        self.placement(block);
        self.only_on(task, block, "concurrency", &["for"]);
        self.only_on(task, block, "join", &["fork"]);
        self.only_on(task, block, "scope", &["do", "try", "for", "fork"]);
        self.only_on(task, block, "idempotency", &["call"]);
        if let Some(join) = block.get("join") {
            self.join(task, &join, scope);
        }
        let key = block.get("stream").and_then(|it| it.get("key"));
        if let Some(key) = key {
            self.compiler.expression(&key, Site::Definition, scope);
        }
    }

    fn only_on(&mut self, task: &Cursor<'a>, block: &Cursor<'a>, key: &str, kinds: &[&str]) {
        let Some(at) = block.get(key) else { return };
        if kinds.iter().any(|kind| task.has(kind)) {
            return;
        }
        let message = format!("`{key}` has no meaning on this task");
        let help = match kinds {
            [kind] => format!("it belongs to a task with `{kind}`"),
            kinds => format!("it belongs to tasks with {}", listed(kinds)),
        };
        self.report(Diagnostic::error("misplaced-key", at.key_place(), message).help(help));
    }

    fn join(&mut self, task: &Cursor<'a>, join: &Cursor<'a>, scope: &Scope) {
        if let Some(condition) = join.get("condition") {
            self.compiler.transform(&condition, Site::Definition, scope);
        }
        let Some(primary) = join.get("primary") else { return };
        let name = primary.text().unwrap_or_default();
        let branches = task.clone().follow("/fork/branches");
        let names: Vec<&str> = branches.named_items().map(|it| it.name()).collect();
        if !names.is_empty() && !names.contains(&name) {
            let message = format!("there is no branch `{name}` in this `fork`");
            let help = did_you_mean(name, names, "");
            self.report(Diagnostic::error("unknown-branch", primary.place(), message).help(help));
        }
    }

    fn survival(&mut self, block: &Cursor<'a>) {
        let Some(survival) = block.get("survival") else { return };
        let Some(strategy) = survival.text_of("strategy") else { return };
        let Some((_, read)) = PARAMETERS.iter().find(|(name, _)| *name == strategy) else { return };
        let all: Vec<&str> = PARAMETERS.iter().flat_map(|(_, read)| *read).copied().collect();
        for parameter in survival.entries() {
            let name = parameter.name();
            if all.contains(&name) && !read.contains(&name) {
                let message = format!("the strategy `{strategy}` does not read `{name}`");
                let help = match read.is_empty() {
                    true => "remove it".to_owned(),
                    false => format!("it reads {}", listed(read)),
                };
                let found = Diagnostic::warning("unused-parameter", parameter.key_place(), message);
                self.report(found.help(help));
            }
        }
        if NOT_FOLLOWED.contains(&strategy)
            && let Some(at) = survival.get("strategy")
        {
            let message = format!("this release does not follow the strategy `{strategy}`");
            let help = "it is run as with `none`, by one node and its journal";
            self.not_read(&at.place(), &message, help);
        }
        if let Some(heartbeat) = survival.get("heartbeat") {
            let message = "this release does not read `heartbeat`";
            let help = "nodes look after each other, whatever they hold, as their defaults say";
            self.not_read(&heartbeat.key_place(), message, help);
        }
        self.replicas(&survival);
        self.vote_threshold(&survival);
        self.acknowledge(&survival, strategy);
        self.election_wait(&survival);
        self.budget(&survival);
    }

    fn replicas(&mut self, survival: &Cursor<'a>) {
        let Some(at) = survival.get("replicas") else { return };
        let Some(replicas) = at.count().filter(|count| u64::from(REPLICAS_MAX) < *count) else {
            return;
        };
        let message = format!("`replicas` must be at most {REPLICAS_MAX}, not {replicas}");
        let help = "every change goes to each of them; 3 or 5 outlast most";
        self.report(Diagnostic::error("bad-value", at.place(), message).help(help).newly());
    }

    /// Valid language that changes nothing in this release.
    fn not_read(&mut self, place: &Place, message: &str, help: &str) {
        self.report(Diagnostic::warning("unsupported", place.clone(), message).help(help));
    }

    /// Whoever is asked to hold an execution has nothing yet to evaluate an expression on.
    fn election_wait(&mut self, survival: &Cursor<'a>) {
        let Some(at) = survival.get("electionWait") else { return };
        if at.text().is_some_and(|text| text.starts_with("${")) {
            let message = "`electionWait` cannot be an expression";
            let help = "write a duration, such as `PT0.5S`";
            return self.report(Diagnostic::error("bad-value", at.place(), message).help(help));
        }
        let wait = moment::duration(&value::from_json(at.node.to_json()));
        if let Some(reason) = wait.ok().and_then(refuse_election_wait) {
            let message = format!("`electionWait` {reason}");
            let help = "without it a candidate waits as long as its node does by default";
            self.report(Diagnostic::error("bad-value", at.place(), message).help(help).newly());
        }
    }

    /// A cost is not negative: whoever may pay less than nothing would never go on.
    fn budget(&mut self, survival: &Cursor<'a>) {
        let Some(at) = survival.get("budget") else { return };
        if at.number().is_some_and(|budget| budget < 0.0) {
            let message = "`budget` must be a cost of at least 0";
            let help = "without `budget` there is no bound";
            self.report(Diagnostic::error("bad-value", at.place(), message).help(help));
        }
    }

    /// An undo without a `cost` costs nothing, so a budget over such undos alone never holds anybody up.
    /// All tasks are lowered by now. What sub-workflows cost is said in their own documents.
    fn check_budget_counts(&mut self, block: &Cursor<'a>) {
        let Some(survival) = block.get("survival") else { return };
        let Some(budget) = survival.get("budget") else { return };
        let may_cost = |task: &Task| {
            let priced = task.traits.compensation.as_ref().is_some_and(|it| it.cost.is_some());
            priced || matches!(task.kind, Kind::RunWorkflow { .. })
        };
        let is_read = PARAMETERS.iter().any(|(strategy, read)| {
            survival.text_of("strategy") == Some(*strategy) && read.contains(&"budget")
        });
        if is_read && !self.tasks.values().any(may_cost) {
            let message = "nothing in this document has a `cost`, so `budget` holds nothing up";
            let help = "say under `compensation` what undoing costs; without `cost` that is 0";
            let found = Diagnostic::warning("unused-parameter", budget.key_place(), message);
            self.report(found.help(help));
        }
    }

    /// Passive replication pays no compensation because an intent is at a majority before its call
    /// leaves; whoever gives that up should know.
    fn acknowledge(&mut self, survival: &Cursor<'a>, strategy: &str) {
        let Some(at) = survival.get("acknowledge") else { return };
        if strategy == "passive" && at.text() == Some("none") {
            let message = "with `acknowledge: none` a primary that is cut off goes on for a while";
            let help = "what it does then is undone later; `majority` is the default of `passive`";
            self.report(Diagnostic::warning("unacknowledged", at.place(), message).help(help));
        }
    }

    /// Seed 0: 1 ≤ t ≤ floor(n/2) + 1.
    fn vote_threshold(&mut self, survival: &Cursor<'a>) {
        let Some(at) = survival.get("voteThreshold") else { return };
        let Some(threshold) = at.count() else { return };
        let said = survival.get("replicas");
        let replicas = said.as_ref().map_or(Some(REPLICAS.into()), Cursor::count);
        let Some(replicas) = replicas else { return };
        let most = replicas / 2 + 1;
        if threshold > most {
            let message = format!(
                "with {replicas} replicas `voteThreshold` is at most {most}, not {threshold}"
            );
            let mut help =
                format!("a majority of {replicas} is {most}; more would stop without need");
            if said.is_none() {
                help += &format!(". There are {replicas} unless `replicas` says otherwise");
            }
            self.report(Diagnostic::error("vote-threshold", at.place(), message).help(help));
        }
    }

    /// `near` names a task, a service or a host of the document; anything else is a region.
    fn placement(&mut self, block: &Cursor<'a>) {
        let Some(near) = block.get("placement").and_then(|it| it.get("near")) else { return };
        let Some(name) = near.text() else { return };
        if self.names.places.contains(name) || self.compiler.found.is_crowded() {
            return;
        }
        let message = format!("`{name}` is no task, service or host of this document");
        let found = Diagnostic::warning("unknown-place", near.place(), message);
        self.report(match closest(name, self.names.places.iter().map(String::as_str)) {
            Some(meant) => found.help(format!("did you mean `{meant}`?")),
            None => found.help("it is taken as the name of a region"),
        });
    }
}
