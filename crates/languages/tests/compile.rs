//! What documents compile to.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use outlast_expressions::{Value, value};
use outlast_languages::openworkflow;
use outlast_workflow::program::{
    Authentication, Backoff, Class, EventStrategy, Flow, HttpOutput, Kind, OnFault, Secretive,
    Service, Task, Template, Undo, Until,
};
use outlast_workflow::{Program, TaskId};
use serde_json::{Value as Json, json};

const HEADER: &str =
    "document: { dsl: '1.0.3', namespace: test, name: compiled, version: '1.0.0' }\n";

fn compile(body: &str) -> Arc<Program> {
    let text = format!("{HEADER}{body}");
    openworkflow::compile(&text).unwrap_or_else(|report| panic!("{}", report.render(&text, false)))
}

fn task<'a>(program: &'a Program, name: &str) -> &'a Task {
    program.tasks.iter().find(|task| task.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn evaluate(template: &Template, input: Json, bound: Json) -> Json {
    match template {
        Template::Literal(literal) => value::to_json(literal),
        Template::Computed(expression) => {
            let bound = value::from_json(bound);
            let binding =
                |name: &str| value::get(&bound, name).cloned().unwrap_or_else(value::null);
            let result = expression.filter.evaluate(&value::from_json(input), &binding);
            value::to_json(&result.unwrap())
        }
    }
}

fn example(name: &str) -> (String, Arc<Program>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = fs::read_to_string(path).unwrap();
    let program = openworkflow::compile(&text).unwrap_or_else(|report| {
        panic!("{}", report.render(&text, false));
    });
    (text, program)
}

#[test]
fn numbers_tasks_in_document_order_with_functions_last() {
    let program = compile(
        "
use: { functions: { f: { set: { x: 1 } } } }
do:
  - a: { do: [ { b: { set: { x: 1 } } } ] }
  - c:
      for: { in: .xs }
      do: [ { d: { call: f } } ]
  - e:
      fork: { branches: [ { g: { wait: PT1S } }, { h: { set: { x: 2 } } } ] }
",
    );
    let names: Vec<&str> = program.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["", "a", "b", "c", "", "d", "e", "g", "h", "f"]);
    let pointers: Vec<&str> =
        program.tasks.iter().map(|task| task.place.pointer.as_str()).collect();
    assert_eq!(pointers[0], "/do");
    assert_eq!(pointers[4], "/do/1/c/do");
    assert_eq!(pointers[8], "/do/2/e/fork/branches/1/h");
    assert_eq!(pointers[9], "/use/functions/f");
    assert!(matches!(task(&program, "d").kind, Kind::Function { body: TaskId(9), .. }));
}

#[test]
fn the_same_text_gives_the_same_program() {
    let (text, first) = example("reviewer-assignment.yaml");
    let second = openworkflow::compile(&text).unwrap();
    assert_eq!(first.digest, second.digest);
    assert_eq!(format!("{:?}", first.tasks), format!("{:?}", second.tasks));
}

#[test]
fn a_template_is_one_filter() {
    let program = compile(
        "
do:
  - a:
      set:
        literal: .not.an.expression
        deep: { list: [ 1, '${ .x + 1 }', '${ $task.name }' ], '${ key }': null }
",
    );
    let Kind::Set(template) = &task(&program, "a").kind else { panic!("a set") };
    let result = evaluate(template, json!({ "x": 1 }), json!({ "task": { "name": "a" } }));
    let expected = json!({
        "literal": ".not.an.expression",
        "deep": { "list": [1, 2, "a"], "${ key }": null },
    });
    assert_eq!(result, expected);
}

#[test]
fn takes_bare_expressions_where_the_language_does() {
    let program = compile(
        "
input: { from: .order }
do:
  - a:
      if: .x > 1
      input: { from: .y }
      switch:
        - late: { when: .days > 3, then: end }
        - other: { then: continue }
      output: { as: .z }
      export: { as: '$context + { a: . }' }
  - b:
      for: { in: .items, each: one }
      while: $one != 3
      do: [ { c: { set: { x: '${ $one }' } } } ]
output: { as: .result }
",
    );
    let a = task(&program, "a");
    assert_eq!(a.condition.as_ref().unwrap().filter.source(), ".x > 1");
    let from = program.input.template.as_ref().unwrap();
    assert_eq!(evaluate(from, json!({ "order": 7 }), json!({})), json!(7));
    let export = a.export.template.as_ref().unwrap();
    let bound = json!({ "context": { "b": 1 } });
    assert_eq!(evaluate(export, json!(2), bound), json!({ "b": 1, "a": 2 }));
    let Kind::Loop { each, at, .. } = &task(&program, "b").kind else { panic!("a loop") };
    assert_eq!((each.as_str(), at.as_str()), ("one", "index"));
}

#[test]
fn jumps_name_places_in_their_list() {
    let program = compile(
        "
do:
  - a: { set: { x: 1 }, then: c }
  - b: { set: { x: 2 }, then: end }
  - c:
      switch:
        - fallback: { then: exit }
        - one: { when: .x == 1, then: b }
",
    );
    assert_eq!(task(&program, "a").then, Flow::Goto(2));
    assert_eq!(task(&program, "b").then, Flow::End);
    let Kind::Switch(cases) = &task(&program, "c").kind else { panic!("a switch") };
    let order: Vec<_> = cases.iter().map(|case| (case.name.as_str(), case.then)).collect();
    assert_eq!(order, [("one", Flow::Goto(1)), ("fallback", Flow::Exit)]);
}

#[test]
fn http_calls_are_one_template_and_name_their_secrets() {
    let program = compile(
        "
use:
  secrets: [ shop ]
  authentications: { shop: { basic: { use: shop } } }
do:
  - a:
      call: http
      with:
        method: post
        endpoint: { uri: 'http://a.example/{id}', authentication: { use: shop } }
        headers: { x-key: '${ \"k \\($secrets.shop.key)\" }' }
        body: { total: '${ .total }' }
        output: response
        redirect: true
",
    );
    let Kind::Call { service, arguments } = &task(&program, "a").kind else { panic!("a call") };
    let Service::Http { output, redirect, authentication } = service else { panic!("http") };
    assert_eq!((*output, *redirect), (HttpOutput::Response, true));
    let Some(Authentication::Basic { password: Secretive::Secret(name, field), .. }) =
        authentication
    else {
        panic!("basic authentication by a secret")
    };
    assert_eq!((name.as_str(), field.as_str()), ("shop", "password"));
    let bound = json!({ "secrets": { "shop": { "key": "?" } } });
    let arguments = evaluate(arguments.as_ref().unwrap(), json!({ "total": 3 }), bound);
    let expected = json!({
        "method": "post", "endpoint": "http://a.example/{id}",
        "headers": { "x-key": "k ?" }, "body": { "total": 3 },
    });
    assert_eq!(arguments, expected);
    assert_eq!(program.secrets, ["shop"]);
}

#[test]
fn named_retries_timeouts_and_errors_are_looked_up() {
    let program = compile(
        "
use:
  retries:
    polite:
      when: $problem.status == 503
      delay: { seconds: 3 }
      backoff: { linear: {} }
      limit: { attempt: { count: 5, duration: PT9S }, duration: PT1M }
      jitter: { from: PT0S, to: PT1S }
  timeouts: { short: { after: PT5S } }
  errors: { gone: { type: 'https://a.example/gone', status: 410, title: '${ .why }' } }
do:
  - a:
      try:
        - b: { raise: { error: gone } }
      catch:
        errors: { with: { status: 410 } }
        as: problem
        retry: polite
      timeout: short
",
    );
    let a = task(&program, "a");
    let Kind::Try { catch, .. } = &a.kind else { panic!("a try") };
    let retry = catch.retry.as_ref().unwrap();
    assert_eq!((retry.backoff, retry.attempts), (Backoff::Linear, Some(5)));
    assert_eq!(retry.when.as_ref().unwrap().filter.uses(), ["problem"]);
    assert!(retry.delay.is_some() && retry.duration.is_some() && retry.jitter.is_some());
    assert!(retry.attempt_duration.is_some());
    assert_eq!(catch.errors.status, Some(410));
    let timeout = evaluate(a.timeout.as_ref().unwrap(), json!(null), json!({}));
    assert_eq!(timeout, json!("PT5S"));
    let Kind::Raise(error) = &task(&program, "b").kind else { panic!("a raise") };
    let expected = json!({ "type": "https://a.example/gone", "status": 410, "title": "x" });
    assert_eq!(evaluate(error, json!({ "why": "x" }), json!({})), expected);
}

#[test]
fn listeners_keep_filters_correlation_and_their_end() {
    let program = compile(
        "
do:
  - a:
      listen:
        to:
          any:
            - with: { type: reading, data: '${ .celsius > 30 }' }
              correlate: { room: { from: .subject, expect: '${ .room }' } }
          until: { one: { with: { type: stop } } }
        read: envelope
      foreach:
        item: reading
        do: [ { b: { set: '${ $reading }' } } ]
        export: { as: '${ $context + { last: $reading } }' }
",
    );
    let Kind::Listen { to, each, .. } = &task(&program, "a").kind else { panic!("a listen") };
    let EventStrategy::Any(filters, Some(Until::Consumed(_))) = to else { panic!("any, until") };
    assert_eq!(filters[0].with.len(), 2);
    assert_eq!(filters[0].correlate[0].0, "room");
    let each = each.as_ref().unwrap();
    assert_eq!((each.item.as_str(), each.at.as_str()), ("reading", "index"));
    assert!(each.body.is_some() && each.export.template.is_some());
}

#[test]
fn the_extension_becomes_traits() {
    let (_, program) = example("reviewer-assignment.yaml");
    assert_eq!(program.on_fault, OnFault::Compensate);
    let open = task(&program, "openReviewRound");
    assert_eq!(open.traits.class, Some(Class::Compensatable));
    let compensation = open.traits.compensation.as_ref().unwrap();
    let Undo::Run(undo) = compensation.undo else { panic!("something to undo") };
    assert_eq!(program.task(undo).name, "closeRound");
    assert_eq!(compensation.retry.as_ref().unwrap().attempts, Some(4));
    assert!(task(&program, "round").traits.scope);
    let Kind::Loop { concurrency, .. } = &task(&program, "papers").kind else { panic!("a loop") };
    assert_eq!(*concurrency, 4);
    let Kind::Compensate { scope, .. } = &task(&program, "undoThisPaper").kind else {
        panic!("a compensation")
    };
    assert_eq!(program.task(scope.unwrap()).name, "placePaper");
    assert_eq!(value::get(&program.extension, "onFault"), Some(&value::string("compensate")));
}

#[test]
fn a_try_that_waits_for_a_sub_workflow_is_a_scope() {
    let program = compile(
        "
do:
  - waits:
      try: [ { one: { run: { workflow: { namespace: n, name: child, version: '1.0.0' } } } } ]
      catch: { as: e }
  - goesOn:
      try: [ { two: { run: { await: false, workflow: { namespace: n, name: child, version: '1.0.0' } } } } ]
      catch: { as: e }
",
    );
    assert!(task(&program, "waits").traits.scope);
    assert!(!task(&program, "goesOn").traits.scope, "nobody undoes what goes its own way");
}

#[test]
fn a_try_with_something_to_undo_is_a_scope() {
    let undone = "metadata: { outlast: { class: compensatable, compensation: { use: f } } }";
    let program = compile(&format!(
        "
use: {{ functions: {{ f: {{ set: {{ x: 1 }} }} }} }}
do:
  - a:
      try: [ {{ b: {{ call: s:1.0.0@default, {undone} }} }} ]
      catch:
        do:
          - undo: {{ call: compensate:1.0.0@default, with: {{ until: b }} }}
  - c:
      try: [ {{ d: {{ call: s:1.0.0@default }} }} ]
      catch: {{ as: e }}
"
    ));
    assert!(task(&program, "a").traits.scope);
    assert!(!task(&program, "c").traits.scope);
    assert!(task(&program, "b").traits.milestone);
}

#[test]
fn a_sub_workflow_that_is_waited_for_undoes_itself() {
    let run = |wait: &str| {
        let workflow = "workflow: { namespace: a, name: b, version: '1.0.0' }";
        let traits = "metadata: { outlast: { class: compensatable } }";
        format!("do:\n  - child:\n      run: {{ {workflow}{wait} }}\n      {traits}\n")
    };
    compile(&run(""));
    let text = format!("{HEADER}{}", run(", await: false"));
    let report = openworkflow::check("run.yaml", &text);
    let codes: Vec<_> = report.diagnostics.iter().map(|it| it.code).collect();
    assert_eq!(codes, ["missing-compensation"]);
}

#[test]
fn schemas_tell_what_does_not_fit() {
    let program = compile(
        "
input:
  schema:
    document:
      type: object
      required: [ id ]
      properties: { id: { type: integer, minimum: 1 } }
do:
  - a: { set: { x: 1 }, output: { schema: { resource: { endpoint: 'http://a.example/s' } } } }
",
    );
    let schema = program.input.schema.as_ref().unwrap();
    let violations = |json: Json| schema.violations(&value::from_json(json));
    assert_eq!(violations(json!({ "id": 1 })), Vec::<String>::new());
    assert_eq!(violations(json!({})), ["\"id\" is a required property"]);
    assert_eq!(violations(json!({ "id": 0 })), ["/id: 0 is less than the minimum of 1"]);
    let external = task(&program, "a").output.schema.as_ref().unwrap();
    assert!(external.violations(&Value::Null)[0].contains("http://a.example/s"));
}

#[test]
fn what_is_not_supported_says_so_when_it_is_reached() {
    let program = compile(
        "
use: { extensions: [ { mock: { extend: wait, before: [ { x: { set: { y: 1 } } } ] } } ] }
do:
  - a: { run: { shell: { command: ls } } }
  - b: { wait: PT1S }
",
    );
    for (name, what) in [("a", "shell"), ("b", "mock")] {
        let Kind::Unsupported(said) = &task(&program, name).kind else { panic!("{name}") };
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_stream_may_go_on_for_ever() {
    let looping = "
do:
  - s:
      METADATA
      do:
        - tick: { wait: PT1S, then: tick }
";
    let metadata = "metadata: { outlast: { stream: { role: source } } }";
    compile(&looping.replace("METADATA", metadata));
    let text = format!("{HEADER}{}", looping.replace("METADATA", "metadata: {}"));
    let report = openworkflow::compile(&text).unwrap_err();
    assert_eq!(report.diagnostics[0].code, "endless-loop");
}

#[test]
fn errors_at_run_time_point_to_the_same_places() {
    let text = format!("{HEADER}do:\n  - first:\n      set: {{ x: 1 }}\n");
    let place = openworkflow::locate(&text, "/do/0/first").unwrap();
    assert_eq!((place.span.line, place.span.column, place.span.length), (3, 5, 5));
    let program = openworkflow::compile(&text).unwrap();
    assert_eq!(program.task(TaskId(1)).place, place);
    let shown = openworkflow::render_fault("f.yaml", &text, "/do/0/first", "no", None, false);
    assert!(shown.contains("--> f.yaml:3:5"), "{shown}");
    assert!(shown.contains("  - first:"), "{shown}");
}

#[test]
fn a_deep_document_is_checked_in_time() {
    let mut text = format!("{HEADER}do:\n");
    let depth = 40;
    for level in 0..depth {
        let indent = "  ".repeat(level * 2);
        text.push_str(&format!("{indent}  - t{level}:\n{indent}      do:\n"));
    }
    text.push_str(&format!("{}  - last: {{ set: {{ x: 1 }} }}\n", "  ".repeat(depth * 2)));
    assert!(openworkflow::check("deep.yaml", &text).is_accepted());
}

#[test]
fn reports_list_a_hundred_problems_at_most() {
    let tasks: String = (0..250).map(|n| format!("  - t{n}: {{ sett: 1 }}\n")).collect();
    let report = openworkflow::check("many.yaml", &format!("{HEADER}do:\n{tasks}"));
    assert_eq!((report.diagnostics.len(), report.unlisted), (100, 150));
    let lines: Vec<u32> = report.diagnostics.iter().map(|found| found.place.span.line).collect();
    assert!(lines.is_sorted());
}

/// A node that did not start any more because of a definition that it holds would be worse than what is
/// wrong with it.
#[test]
fn what_an_earlier_release_accepted_is_compiled_though_it_is_rejected_now() {
    let stored = |survival: &str, block: &str| {
        let survival = format!("{{ strategy: active, {survival} }}");
        let header = HEADER
            .replace(" }", &format!(", metadata: {{ outlast: {{ survival: {survival} }} }} }}"));
        let call = "call: http, with: { method: get, endpoint: 'http://a.example' }";
        format!("{header}do: [ {{ a: {{ {call}, metadata: {{ outlast: {{ {block} }} }} }} }} ]\n")
    };
    let (replicas, readonly) = ("replicas: 3", "class: readonly");
    assert!(openworkflow::check("flow.yaml", &stored(replicas, readonly)).is_accepted());
    let undo = "do: [ { b: { set: { x: 1 } } } ]";
    for (survival, block) in [
        ("replicas: 65", readonly),
        ("electionWait: PT0S", readonly),
        ("electionWait: PT2H", readonly),
        (replicas, &format!("compensation: {{ {undo}, cost: -3 }}")),
        (replicas, &format!("compensation: {{ {undo}, cost: '${{ \"abc\" }}' }}")),
        (replicas, "class: compensatable, compensation: { none: true }"),
        (replicas, "idempotency: { none: true, key: a }"),
    ] {
        let text = stored(survival, block);
        let report = openworkflow::check("flow.yaml", &text);
        assert!(!report.is_accepted(), "{survival} {block}");
        assert!(openworkflow::compile(&text).is_ok(), "{}", report.render(&text, false));
    }
    let never = stored("budget: lots", readonly);
    assert!(openworkflow::compile(&never).is_err());
}
