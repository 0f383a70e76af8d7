//! How much a compiled definition holds for as long as a node keeps it, by what the process has resident.
//!
//! The only test of its file: another one beside it would be measured too.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use outlast_expressions::value;
use outlast_languages::openworkflow;
use outlast_workflow::Program;
use outlast_workflow::program::{Expression, Kind, Task, Template};

/// What a definition may hold. Every expression came with all of jq's functions once, and it held 1 MB.
const COMPILED_MAX: usize = 150 * 1024;
/// What it may hold besides once all its expressions have been evaluated.
const EVALUATED_MAX: usize = 250 * 1024;

const TASKS: usize = 18;

#[test]
fn a_definition_of_eighteen_calls_holds_little() {
    // The first ones also pay for what all share: the schema of documents, the library of jq.
    let first: Vec<_> = (0..20).map(|number| compiled(1_000 + number)).collect();
    first.iter().for_each(|program| assert!(3 * TASKS <= evaluate_all(program)));
    let mut kept = Vec::new();
    let compiling = each_holds(|number| kept.push(compiled(number)));
    let evaluating = each_holds(|number| assert!(3 * TASKS <= evaluate_all(&kept[number])));
    let said = format!("{compiling} bytes each, and {evaluating} once they were evaluated");
    assert!(compiling <= COMPILED_MAX, "{said}");
    assert!(evaluating <= EVALUATED_MAX, "{said}");
}

/// By how many bytes the process grows with each of many.
fn each_holds(make: impl FnMut(usize)) -> usize {
    const COUNT: usize = 150;
    let before = resident_bytes();
    (0..COUNT).for_each(make);
    resident_bytes().saturating_sub(before) / COUNT
}

fn compiled(number: usize) -> Arc<Program> {
    openworkflow::compile(&document(number)).expect("the document is accepted")
}

/// Evaluates what calls are made with, what is made of their answers and what is kept for undos.
fn evaluate_all(program: &Program) -> usize {
    let expressions: Vec<&Expression> = program.tasks.iter().flat_map(expressions_of).collect();
    for expression in &expressions {
        let evaluated = expression.filter.evaluate(&value::object([]), &|_| value::object([]));
        evaluated.expect("it has a value");
    }
    expressions.len()
}

fn expressions_of(task: &Task) -> impl Iterator<Item = &Expression> {
    let arguments = match &task.kind {
        Kind::Call { arguments, .. } => arguments.as_ref(),
        _ => None,
    };
    let capture = task.traits.compensation.as_ref().and_then(|it| it.capture.as_ref());
    let templates = [arguments, task.output.template.as_ref(), capture].into_iter().flatten();
    templates.filter_map(|template| match template {
        Template::Computed(expression) => Some(expression),
        Template::Literal(_) => None,
    })
}

/// Calls with an undo each, and four expressions in each of them.
fn document(number: usize) -> String {
    let task = |task: usize| {
        format!(
            r#"
  - step{task}:
      call: http
      with: {{ method: post, endpoint: 'http://example.com/do/{number}-{task}', body: '${{ {{ after: (.trail // []) }} }}' }}
      output: {{ as: '${{ {{ trail: (($input.trail // []) + [.number]) }} }}' }}
      metadata:
        outlast:
          class: compensatable
          compensation:
            capture: '${{ {{ of: .trail[-1] }} }}'
            retry: stubborn
            do:
              - undo:
                  call: http
                  with: {{ method: post, endpoint: 'http://example.com/undo/{number}-{task}', body: '${{ . }}' }}"#
        )
    };
    let tasks: String = (0..TASKS).map(task).collect();
    format!(
        "document: {{ dsl: '1.0.3', namespace: test, name: d{number}, version: '1.0.0', \
         metadata: {{ outlast: {{ version: '1.0' }} }} }}\n\
         use: {{ retries: {{ stubborn: {{ delay: {{ milliseconds: 100 }}, \
         limit: {{ attempt: {{ count: 200 }} }} }} }} }}\ndo:{tasks}\n"
    )
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is listed");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number of kB");
    kilobytes * 1024
}
