//! How a run ended: the output on stdout, errors at their place in the document on stderr.

use outlast_engine::Detail;
use outlast_expressions::{Value, value};
use outlast_workflow::Outcome;

use super::line;
use crate::exit::Exit;
use crate::fault::render;
use crate::input::Document;

/// Tells how an execution ended, and says what that means.
pub(super) fn tell(detail: &Detail, flow: &Document, json: bool) -> Exit {
    let Some(outcome) = &detail.outcome else { return Exit::Faulted };
    if json {
        println!("{}", line(&as_value(detail, outcome)));
    }
    match outcome {
        Outcome::Completed(output) => {
            if !json {
                println!("{}", value::pretty(output));
            }
            Exit::Completed
        }
        Outcome::Faulted(fault) => {
            eprint!("{}", render(fault, flow));
            Exit::Faulted
        }
        Outcome::Cancelled => {
            tell!("cancelled");
            Exit::Cancelled
        }
        Outcome::Compensated(fault) => {
            eprint!("{}", render(fault, flow));
            tell!("compensated: what had been done is undone");
            Exit::Compensated
        }
    }
}

fn as_value(detail: &Detail, outcome: &Outcome) -> Value {
    let (output, error) = match outcome {
        Outcome::Completed(output) => (Some(output.clone()), None),
        Outcome::Faulted(fault) | Outcome::Compensated(fault) => (None, Some(fault.to_value())),
        Outcome::Cancelled => (None, None),
    };
    let summary = &detail.summary;
    let members = [
        ("execution", Some(value::string(&summary.execution.to_string()))),
        ("name", summary.name.as_deref().map(value::string)),
        ("condition", Some(value::string(summary.condition.word()))),
        ("output", output),
        ("error", error),
    ];
    value::object(members.into_iter().filter_map(|(name, value)| Some((name, value?))))
}
