//! Tests of the rules on hand-made programs.

use outlast_expressions::value;
use outlast_lineage::Digest;

use super::{Weight, check};
use crate::program::{
    Case, Catch, Class, CompensationOrder, ErrorFilter, Flow, Graph, Kind, Link, OnFailure,
    OnFault, Place, Program, Step, Task, TaskId, Template, Traits, Transform,
};

fn nothing() -> Template {
    Template::Literal(value::null())
}

fn task(name: &str, kind: Kind) -> Task {
    Task {
        name: name.to_owned(),
        place: Place::default(),
        condition: None,
        input: Transform::default(),
        output: Transform::default(),
        export: Transform::default(),
        timeout: None,
        then: Flow::Continue,
        kind,
        traits: Traits::default(),
    }
}

fn set(name: &str) -> Task {
    task(name, Kind::Set(nothing()))
}

fn of_class(name: &str, class: Class) -> Task {
    let mut task = set(name);
    task.traits.class = Some(class);
    task
}

fn then(mut task: Task, flow: Flow) -> Task {
    task.then = flow;
    task
}

/// A program of a root list and further tasks; the root holds the first `count` of them.
fn program(count: u32, tasks: Vec<Task>) -> Program {
    let root = task("do", Kind::Sequence((1..=count).map(TaskId).collect()));
    Program {
        digest: Digest::of(b""),
        namespace: String::new(),
        name: String::new(),
        version: String::new(),
        dsl: String::new(),
        definition: value::null().into(),
        tasks: std::iter::once(root).chain(tasks).collect(),
        input: Transform::default(),
        output: Transform::default(),
        timeout: None,
        on_fault: OnFault::Leave,
        secrets: Vec::new(),
        extension: value::null(),
        linked: Default::default(),
    }
}

fn codes(program: &Program) -> Vec<(&'static str, u32)> {
    check(program).iter().map(|finding| (finding.code, finding.task.0)).collect()
}

#[test]
fn a_list_of_tasks_one_after_the_other_is_well_formed() {
    assert_eq!(codes(&program(2, vec![set("a"), set("b")])), []);
}

#[test]
fn a_workflow_has_a_task_to_start_with() {
    assert_eq!(codes(&program(0, vec![])), [("empty-workflow", 0)]);
}

#[test]
fn every_task_is_reached() {
    let lost = program(3, vec![then(set("a"), Flow::End), set("b"), set("c")]);
    assert_eq!(codes(&lost), [("unreachable-task", 2)]);
    assert!(check(&lost)[0].message.contains("`b` and `c`"));
    let jumped = program(3, vec![then(set("a"), Flow::Goto(2)), set("b"), set("c")]);
    assert_eq!(codes(&jumped), [("unreachable-task", 2)]);
}

#[test]
fn a_task_after_one_that_never_completes_is_not_reached() {
    let inner = task("a", Kind::Sequence(vec![TaskId(3)]));
    let lost = program(2, vec![inner, set("b"), then(set("c"), Flow::End)]);
    assert_eq!(codes(&lost), [("unreachable-task", 2)]);
    let raised = program(2, vec![task("a", Kind::Raise(nothing())), set("b")]);
    assert_eq!(codes(&raised), [("unreachable-task", 2)]);
}

#[test]
fn a_jump_back_needs_a_way_out() {
    let endless = program(2, vec![set("a"), then(set("b"), Flow::Goto(0))]);
    assert_eq!(codes(&endless), [("endless-loop", 1)]);
    let mut bounded = program(2, vec![set("a"), then(set("b"), Flow::Goto(0))]);
    bounded.timeout = Some(nothing());
    assert_eq!(codes(&bounded), []);
}

#[test]
fn a_race_ends_a_branch_without_end() {
    let tasks = vec![
        task("race", Kind::Fork { branches: vec![TaskId(2), TaskId(4)], compete: true }),
        task("ticks", Kind::Sequence(vec![TaskId(3)])),
        then(set("tick"), Flow::Goto(0)),
        set("stop"),
    ];
    assert_eq!(codes(&program(1, tasks)), []);
}

#[test]
fn steps_of_a_graph_do_not_wait_in_a_circle() {
    let step = |id| Step { task: TaskId(id), inputs: Vec::new(), when: None, scatter: None };
    let link = |from, to| Link { from, to, when: None };
    let graph =
        Graph { steps: vec![step(2), step(3)], links: vec![link(0, 1), link(1, 0)], output: None };
    let tasks = vec![task("graph", Kind::Graph(graph)), set("a"), set("b")];
    assert_eq!(codes(&program(1, tasks)), [("graph-cycle", 1)]);
}

#[test]
fn after_a_pivot_only_what_is_sure_to_succeed() {
    let after = |class| program(2, vec![of_class("p", Class::Pivot), of_class("a", class)]);
    assert_eq!(codes(&after(Class::Compensatable)), [("after-pivot", 2)]);
    assert_eq!(codes(&after(Class::Pivot)), [("second-pivot", 2)]);
    assert_eq!(codes(&after(Class::Retriable)), []);
    assert_eq!(codes(&after(Class::CompensatableRetriable)), []);
    assert_eq!(codes(&after(Class::Readonly)), []);
}

#[test]
fn an_alternative_that_is_sure_to_succeed_may_follow_a_pivot() {
    let mut alternated = of_class("a", Class::Compensatable);
    alternated.traits.alternatives = vec![TaskId(3)];
    let sure = of_class("sure", Class::Retriable);
    let tasks = vec![of_class("p", Class::Pivot), alternated, sure];
    assert_eq!(codes(&program(2, tasks)), []);
}

#[test]
fn a_pivot_on_another_path_does_not_count() {
    let case = |name: &str, then| Case { name: name.to_owned(), when: None, then };
    let cases = vec![case("one", Flow::Goto(1)), case("two", Flow::Goto(2))];
    let tasks = vec![
        task("switch", Kind::Switch(cases)),
        then(of_class("p", Class::Pivot), Flow::End),
        of_class("a", Class::Compensatable),
    ];
    assert_eq!(codes(&program(3, tasks)), []);
}

#[test]
fn a_pivot_does_not_run_again_after_itself() {
    let body = Kind::Loop {
        each: "item".to_owned(),
        at: "index".to_owned(),
        items: nothing(),
        condition: None,
        body: TaskId(2),
        concurrency: 1,
    };
    let tasks = vec![
        task("loop", body),
        task("do", Kind::Sequence(vec![TaskId(3)])),
        of_class("p", Class::Pivot),
    ];
    assert_eq!(codes(&program(1, tasks)), [("second-pivot", 3)]);
}

#[test]
fn a_race_holds_no_pivot() {
    let tasks = vec![
        task("race", Kind::Fork { branches: vec![TaskId(2), TaskId(3)], compete: true }),
        of_class("p", Class::Pivot),
        set("a"),
    ];
    assert_eq!(codes(&program(1, tasks)), [("pivot-in-compete", 2)]);
}

#[test]
fn a_pivot_in_a_branch_is_behind_what_follows_the_join() {
    let tasks = vec![
        task("both", Kind::Fork { branches: vec![TaskId(3), TaskId(4)], compete: false }),
        of_class("a", Class::Compensatable),
        set("x"),
        of_class("p", Class::Pivot),
    ];
    assert_eq!(codes(&program(2, tasks)), [("after-pivot", 2)]);
}

/// `try [reserve, pivot, confirm] catch [compensate]`, with the class of `confirm`.
fn rolled_back(confirm: Class, until: Option<TaskId>) -> Program {
    let catch = Catch {
        errors: ErrorFilter::default(),
        variable: "error".to_owned(),
        when: None,
        except_when: None,
        retry: None,
        body: Some(TaskId(6)),
        then: None,
    };
    let compensate = Kind::Compensate {
        scope: Some(TaskId(1)),
        until,
        order: CompensationOrder::Reverse,
        on_failure: OnFailure::Raise,
    };
    program(
        1,
        vec![
            task("order", Kind::Try { body: TaskId(2), catch }),
            task("try", Kind::Sequence(vec![TaskId(3), TaskId(4), TaskId(5)])),
            of_class("reserve", Class::Compensatable),
            of_class("pay", Class::Pivot),
            of_class("confirm", confirm),
            task("do", Kind::Sequence(vec![TaskId(7)])),
            task("undo", compensate),
        ],
    )
}

#[test]
fn a_rollback_does_not_cross_a_pivot() {
    let crossing = rolled_back(Class::Readonly, None);
    assert_eq!(codes(&crossing), [("compensate-crosses-pivot", 7)]);
    let stopped = rolled_back(Class::Readonly, Some(TaskId(4)));
    assert_eq!(codes(&stopped), []);
}

#[test]
fn a_handler_is_entered_before_the_pivot_if_nothing_fails_after_it() {
    assert_eq!(codes(&rolled_back(Class::Retriable, None)), []);
}

fn catch(retry: bool) -> Catch {
    Catch {
        errors: ErrorFilter::default(),
        variable: "error".to_owned(),
        when: None,
        except_when: None,
        retry: retry.then(Default::default),
        body: None,
        then: None,
    }
}

/// `try [pay, then]`, which is tried again or not.
fn tried(retry: bool, then: Task) -> Program {
    let tasks = vec![
        task("order", Kind::Try { body: TaskId(2), catch: catch(retry) }),
        task("try", Kind::Sequence(vec![TaskId(3), TaskId(4)])),
        of_class("pay", Class::Pivot),
        then,
    ];
    program(1, tasks)
}

fn raise() -> Task {
    task("raise", Kind::Raise(nothing()))
}

#[test]
fn a_pivot_is_not_tried_again_because_something_after_it_fails() {
    let refused = [("second-pivot", 3)];
    assert_eq!(codes(&tried(true, raise())), refused);
    assert_eq!(codes(&tried(true, of_class("look", Class::Readonly))), refused);
    assert_eq!(codes(&tried(true, task("tell", Kind::Emit(nothing())))), refused);
    assert!(check(&tried(true, raise()))[0].message.contains("`order` tries again"));
    assert_eq!(codes(&tried(false, raise())), []);
    assert_eq!(codes(&tried(true, of_class("ship", Class::Retriable))), []);
    assert_eq!(codes(&tried(true, set("note"))), []);
}

#[test]
fn a_pivot_that_fails_itself_may_be_tried_again() {
    let mut slow = tried(true, set("note"));
    slow.tasks[3].timeout = Some(nothing());
    assert_eq!(codes(&slow), []);
    let before = vec![
        of_class("pay", Class::Pivot),
        task("order", Kind::Try { body: TaskId(3), catch: catch(true) }),
        task("try", Kind::Sequence(vec![TaskId(4)])),
        of_class("look", Class::Readonly),
    ];
    assert_eq!(codes(&program(2, before)), [], "what is tried again comes after it");
}

#[test]
fn a_fault_after_a_pivot_does_not_roll_back_what_came_before_it() {
    let after = |then: Task| {
        let mut program = program(2, vec![of_class("pay", Class::Pivot), then]);
        assert_eq!(codes(&program), [], "nothing is rolled back");
        program.on_fault = OnFault::Compensate;
        let findings = check(&program);
        findings.iter().map(|it| (it.code, it.task.0, it.weight)).collect::<Vec<_>>()
    };
    let crosses = |weight| [("compensate-crosses-pivot", 1, weight)];
    assert_eq!(after(raise()), crosses(Weight::Error));
    assert_eq!(after(of_class("look", Class::Readonly)), crosses(Weight::Warning));
    assert_eq!(after(of_class("ship", Class::Retriable)), []);
    assert_eq!(after(set("note")), []);
    let mut caught = tried(false, raise());
    caught.on_fault = OnFault::Compensate;
    assert_eq!(codes(&caught), []);
    let Kind::Try { catch, .. } = &mut caught.tasks[1].kind else { panic!("it was built so") };
    catch.errors.status = Some(503);
    assert_eq!(check(&caught)[0].weight, Weight::Warning, "another error is not caught");
}

#[test]
fn an_effect_without_a_class_is_a_warning_when_all_is_to_be_rolled_back() {
    let mut unclassed = program(1, vec![task("tell", Kind::Emit(nothing()))]);
    assert_eq!(codes(&unclassed), []);
    unclassed.on_fault = OnFault::Compensate;
    assert_eq!(codes(&unclassed), [("unclassified-effect", 1)]);
    assert_eq!(check(&unclassed)[0].weight, Weight::Warning);
    let runs = |wait| {
        let text = || "other".to_owned();
        let (namespace, name, version) = (text(), text(), text());
        let kind = Kind::RunWorkflow { namespace, name, version, input: None, wait };
        let mut program = program(1, vec![task("run", kind)]);
        program.on_fault = OnFault::Compensate;
        codes(&program)
    };
    assert_eq!(runs(true), [], "it is rolled back as it says itself");
    assert_eq!(runs(false), [("unclassified-effect", 1)]);
}

#[test]
fn takes_time_linear_in_the_depth() {
    let depth = 200;
    let tasks = (1..=depth).map(|level| {
        let inner = if level == depth { vec![] } else { vec![TaskId(level + 1)] };
        task("loop", Kind::Sequence(inner))
    });
    let tasks: Vec<Task> = tasks
        .enumerate()
        .map(|(index, inner)| match index % 2 {
            0 => inner,
            _ => {
                let Kind::Sequence(body) = &inner.kind else { panic!("all are lists") };
                let Some(body) = body.first() else { return inner };
                let each = "item".to_owned();
                let at = "index".to_owned();
                let (items, condition, body) = (nothing(), None, *body);
                task("for", Kind::Loop { each, at, items, condition, body, concurrency: 1 })
            }
        })
        .collect();
    assert_eq!(codes(&program(1, tasks)), []);
}
