//! `outlast show`: everything about one execution but its history.

use serde_json::Value as Json;

use super::parked::provenance;
use super::ps::nodes;
use super::resolve::command;
use crate::client::Connection;
use crate::exit::Exit;
use crate::table;

/// Show one execution: what it does, its input, and how it ended
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast show 0197a1b2-6c1e-7d3a-8f4b-5a6978877665
  outlast show orders/order-17                    by the name its starter gave it
  outlast show orders/order-17 --json | jq .output")]
pub(crate) struct Arguments {
    /// The execution: its id, or namespace/name
    execution: String,
    #[command(flatten)]
    connection: Connection,
}

/// Shows it.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = ["v1", "executions", &arguments.execution];
    let answer = arguments.connection.talk(async |client| client.get(&path, &[]).await)?;
    if arguments.connection.json {
        table::print_json(&answer);
    } else {
        table::print(&describe(&answer));
    }
    Ok(Exit::Completed)
}

/// An execution for people.
pub(super) fn describe(execution: &Json) -> String {
    let text = |name| table::text(execution, name);
    let workflow = format!("{}/{}:{}", text("namespace"), text("workflow"), text("version"));
    let mut pairs = vec![
        ("execution", text("execution")),
        ("workflow", workflow),
        ("condition", text("condition")),
        ("started", text("started")),
        ("changed", text("changed")),
        ("progress", format!("{} activities completed", text("progress"))),
    ];
    let optional = [
        "name", "parent", "nodes", "leader", "phase", "stalled", "awaited", "input", "output",
        "error",
    ];
    for name in optional {
        if execution.get(name).is_some_and(|value| !value.is_null()) {
            let said = match name {
                "nodes" => nodes(execution, " "),
                "leader" => leader(execution),
                "awaited" => table::texts(execution, "awaited").collect::<Vec<_>>().join(" "),
                _ => text(name),
            };
            pairs.push((name, said));
            if name == "awaited" {
                pairs.push(("", waits(execution)));
            }
        }
    }
    let parked = execution.get("parked").and_then(Json::as_array);
    for item in parked.into_iter().flatten() {
        let said = format!("{} at {}", table::text(item, "reason"), table::text(item, "place"));
        pairs.push(("parked", said));
        pairs.push(("", provenance(item)));
        pairs.push(("", format!("say what became of it: {}", command(item))));
    }
    table::pairs(&pairs)
}

/// What waits for the word of nodes, and what to do if one of them is lost. A node that undoes what its
/// line did asks every other one first: any of them may know that it counts. One that is there answers in a
/// moment, and is not to be removed.
fn waits(execution: &Json) -> String {
    let what = "what was done in runs of it that do not count is undone, and it is forgotten, only once every \
                node that holds it has answered";
    let unreachable: Vec<&str> = table::texts(execution, "unreachable").collect();
    let which = match unreachable.as_slice() {
        [] => return what.to_owned(),
        [one] => one,
        _ => "NODE",
    };
    let silent = unreachable.join(" and ");
    format!(
        "{what}; {silent} cannot be reached; if one is lost for good: outlast cluster remove {which}"
    )
}

/// Who goes on with it, and what that node does instead where it does not simply go on.
fn leader(execution: &Json) -> String {
    let leader = table::text(execution, "leader");
    match execution.get("leaderPhase").and_then(Json::as_str) {
        None | Some("leading") => leader,
        Some(phase) => format!("{leader}, {phase}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_waits_for_a_node_out_of_reach_is_told_what_waits_and_what_ends_the_wait() {
        let awaited = |awaited: &[&str], unreachable: &[&str]| {
            describe(&json!({ "awaited": awaited, "unreachable": unreachable }))
        };
        let shown = awaited(&["c"], &["c"]);
        assert!(shown.contains("is undone") && shown.contains("cluster remove c"), "{shown}");
        let shown = awaited(&["a", "b", "c"], &["c"]);
        assert!(shown.contains("a b c\n") && shown.contains("cluster remove c"), "{shown}");
        let shown = awaited(&["b", "c"], &["b", "c"]);
        assert!(shown.contains("b and c cannot") && shown.contains("remove NODE"), "{shown}");
    }

    #[test]
    fn nobody_is_told_to_remove_a_node_that_is_there() {
        let shown = describe(&json!({ "phase": "forgetting", "awaited": ["c"] }));
        assert!(shown.contains("has answered") && !shown.contains("remove"), "{shown}");
        assert!(!describe(&json!({ "phase": "forgetting" })).contains("remove"));
    }

    #[test]
    fn a_leader_that_does_not_simply_lead_is_shown_with_what_it_does() {
        let shown = |phase: Json| {
            let told = json!({ "leader": "b", "phase": "following", "leaderPhase": phase });
            describe(&told).lines().find(|line| line.starts_with("leader")).unwrap().to_owned()
        };
        assert!(shown(json!("paused")).ends_with(" b, paused"));
        assert!(shown(json!("leading")).ends_with(" b"));
        assert!(shown(Json::Null).ends_with(" b"), "it did not answer");
    }
}
