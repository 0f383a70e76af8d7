//! Drawings of programs made by hand: pictures to look at, and laws that hold for every program.

use std::collections::BTreeMap;

use outlast_expressions::{Filter, value};
use outlast_lineage::Digest;
use proptest::prelude::*;

use super::layout::{self, Area, Placed, PlacedLane};
use super::{Progress, TaskState, TaskView, mermaid, shape, svg};
use crate::program::{
    Case, Catch, Class, Compensation, ErrorFilter, Expression, Flow, Graph, HttpOutput, Kind, Link,
    OnFault, Place, RetryPolicy, Scatter, ScatterMethod, Service, Source, Step, Task, Template,
    Traits, Transform, Undo,
};
use crate::{Fault, FaultKind, Happening, Outcome, Program, TaskId};

/// Makes a program task by task. The root's number is kept free and filled last.
struct Builder {
    tasks: Vec<Task>,
}

impl Builder {
    fn new() -> Self {
        Self { tasks: vec![task("root", Kind::Sequence(Vec::new()))] }
    }

    fn add(&mut self, name: &str, kind: Kind) -> TaskId {
        self.tasks.push(task(name, kind));
        TaskId(u32::try_from(self.tasks.len()).unwrap() - 1)
    }

    fn set(&mut self, name: &str) -> TaskId {
        self.add(name, Kind::Set(Template::Literal(value::integer(1))))
    }

    fn call(&mut self, name: &str, method: &str, endpoint: &str) -> TaskId {
        let arguments = value::object([
            ("method", value::string(method)),
            ("endpoint", value::string(endpoint)),
        ]);
        let service =
            Service::Http { output: HttpOutput::Content, redirect: false, authentication: None };
        self.add(name, Kind::Call { service, arguments: Some(Template::Literal(arguments)) })
    }

    fn wait(&mut self, name: &str, seconds: i64) -> TaskId {
        let duration = value::object([("seconds", value::integer(seconds))]);
        self.add(name, Kind::Wait(Template::Literal(duration)))
    }

    fn sequence(&mut self, list: &[TaskId]) -> TaskId {
        self.add("do", Kind::Sequence(list.to_vec()))
    }

    fn attempt(&mut self, name: &str, tried: &[TaskId], catch: Catch) -> TaskId {
        let body = self.sequence(tried);
        self.add(name, Kind::Try { body, catch })
    }

    fn each(&mut self, name: &str, item: &str, list: &str, body: &[TaskId]) -> TaskId {
        let body = self.sequence(body);
        let items = Template::Computed(expression(list));
        let (each, at) = (item.to_owned(), "index".to_owned());
        self.add(name, Kind::Loop { each, at, items, condition: None, body, concurrency: 1 })
    }

    fn task(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.0 as usize]
    }

    fn undone_by(&mut self, id: TaskId, undo: TaskId) {
        let compensation = Compensation {
            undo: Undo::Run(undo),
            capture: None,
            cost: None,
            retry: None,
            timeout: None,
            tolerant: false,
        };
        self.task(id).traits.compensation = Some(compensation);
    }

    fn finish(mut self, root: &[TaskId]) -> Program {
        self.tasks[0].kind = Kind::Sequence(root.to_vec());
        Program {
            digest: Digest::of(b""),
            namespace: "conference".to_owned(),
            name: "reviewer-assignment".to_owned(),
            version: "1.0.0".to_owned(),
            dsl: "1.0.3".to_owned(),
            definition: value::object([]).into(),
            tasks: self.tasks,
            input: Transform::default(),
            output: Transform::default(),
            timeout: None,
            on_fault: OnFault::Leave,
            secrets: Vec::new(),
            extension: value::object([]),
            linked: Default::default(),
        }
    }
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

fn expression(source: &str) -> Expression {
    let variables = ["context", "workflow", "paper", "error"];
    Expression { filter: Filter::compile(source, &variables).unwrap(), place: Place::default() }
}

fn catch(body: Option<TaskId>) -> Catch {
    Catch {
        errors: ErrorFilter::default(),
        variable: "error".to_owned(),
        when: None,
        except_when: None,
        retry: None,
        body,
        then: None,
    }
}

fn view_of(states: &[(TaskId, TaskView)]) -> impl Fn(TaskId) -> TaskView + use<> {
    let states: BTreeMap<TaskId, TaskView> = states.iter().copied().collect();
    move |task| states.get(&task).copied().unwrap_or_default()
}

/// The worked example of the language: a scope with a fork, loops and handlers.
fn reviewer_assignment() -> (Program, Vec<(TaskId, TaskView)>) {
    let mut made = Builder::new();
    let close = made.call("closeRound", "delete", "http://chair.example/rounds/{roundId}");
    let uninvite = made.call("uninvite", "delete", "http://pool.example/invitations/{id}");
    let open = made.call("openReviewRound", "post", "http://chair.example/rounds");
    made.undone_by(open, close);
    let invite = made.call("inviteReviewer", "post", "http://pool.example/invitations");
    made.undone_by(invite, uninvite);
    let invitations = made.each("invitations", "reviewer", "$workflow.input.pool", &[invite]);

    let rank_l = made.call("rankL", "post", "http://library-l.example/rank");
    let rank_m = made.call("rankM", "post", "http://library-m.example/rank");
    let handler = made.sequence(&[rank_m]);
    let retry = RetryPolicy { attempts: Some(4), ..RetryPolicy::default() };
    let retry = Some(Box::new(retry));
    let shortlist = made.attempt("shortlist", &[rank_l], Catch { retry, ..catch(Some(handler)) });
    let reserve = made.call("reserve", "post", "http://pool.example/slots");
    let commit = made.call("commitAssignment", "post", "http://chair.example/assignments");
    made.task(commit).traits.class = Some(Class::Pivot);
    let place = made.sequence(&[reserve, commit]);
    made.task(place).name = "placePaper".to_owned();
    let papers = made.each("papers", "paper", "$workflow.input.papers", &[shortlist, place]);
    if let Kind::Loop { concurrency, .. } = &mut made.task(papers).kind {
        *concurrency = 4;
    }
    let work = made.add("work", Kind::Fork { branches: vec![invitations, papers], compete: false });

    let undo_all = made.add(
        "undoAll",
        Kind::Compensate {
            scope: None,
            until: None,
            order: Default::default(),
            on_failure: Default::default(),
        },
    );
    let error = value::object([
        (
            "type",
            value::string("https://open-workflow-specification.org/spec/1.0.0/errors/runtime"),
        ),
        ("status", value::integer(500)),
    ]);
    let give_up = made.add("giveUp", Kind::Raise(Template::Literal(error)));
    let handler = made.sequence(&[undo_all, give_up]);
    let round = made.attempt("round", &[open, work], catch(Some(handler)));

    let states = [
        (round, TaskState::Running, None),
        (open, TaskState::Completed, None),
        (work, TaskState::Running, None),
        (invitations, TaskState::Completed, Some(12)),
        (invite, TaskState::Completed, Some(12)),
        (papers, TaskState::Running, Some(3)),
        (shortlist, TaskState::Completed, Some(3)),
        (rank_l, TaskState::Faulted, Some(1)),
        (rank_m, TaskState::Completed, Some(1)),
        (place, TaskState::Running, None),
        (reserve, TaskState::Waiting, None),
    ];
    let states = states.map(|(task, state, count)| (task, TaskView { state, count }));
    (made.finish(&[round]), states.to_vec())
}

/// Jumps forward and backward, a competition, a graph, and every state.
fn everything() -> (Program, Vec<(TaskId, TaskView)>) {
    let mut made = Builder::new();
    let prepare = made.set("prepare");
    made.task(prepare).condition =
        Some(expression(".order.lines | length > 0 and .order.priority != \"none\""));
    let case = |name: &str, when: Option<&str>, then| Case {
        name: name.to_owned(),
        when: when.map(expression),
        then,
    };
    let cases = vec![
        case("express", Some(".priority == \"high\""), Flow::Goto(4)),
        case("digital", Some(".weight == 0"), Flow::End),
        case("again", Some(".stale"), Flow::Goto(0)),
        case("usual", None, Flow::Continue),
    ];
    let decide = made.add("decide", Kind::Switch(cases));
    let pack = made.wait("pack", 90);
    made.task(pack).then = Flow::Goto(5);
    let unreachable =
        made.set("anOrdinaryTaskWithAnExtraordinarilyLongNameThatNobodyCanReadInOneGo");
    let by_air = made.call("quoteByAir", "get", "http://air.example/quotes?from=here&to=<there>");
    let by_sea = made.wait("waitForTheShip", 3600);
    let carrier = made.add("carrier", Kind::Fork { branches: vec![by_air, by_sea], compete: true });
    let steps = ["fetch", "filter", "align", "sort", "plot"].map(|name| made.set(name));
    let graph = made.add("analysis", Kind::Graph(diamond(&steps)));
    let nothing = made.attempt("cleanUp", &[], catch(None));
    let child = Kind::RunWorkflow {
        namespace: "shop".to_owned(),
        name: "invoice".to_owned(),
        version: "2.1.0".to_owned(),
        input: None,
        wait: true,
    };
    let invoice = made.add("invoice", child);
    let states = [
        (prepare, TaskState::Compensated),
        (decide, TaskState::Completed),
        (pack, TaskState::Skipped),
        (carrier, TaskState::Completed),
        (by_air, TaskState::Completed),
        (by_sea, TaskState::Cancelled),
        (graph, TaskState::Running),
        (steps[0], TaskState::Completed),
        (steps[1], TaskState::Faulted),
        (steps[2], TaskState::Waiting),
    ];
    let views = states.map(|(task, state)| (task, state.into())).to_vec();
    (made.finish(&[prepare, decide, pack, unreachable, carrier, graph, nothing, invoice]), views)
}

fn diamond(steps: &[TaskId; 5]) -> Graph {
    let from = |step| ("input".to_owned(), Source::Step { step, part: None });
    let step = |index: usize, inputs: &[usize]| Step {
        task: steps[index],
        inputs: inputs.iter().map(|input| from(*input)).collect(),
        when: None,
        scatter: None,
    };
    let mut graph = Graph {
        steps: vec![step(0, &[]), step(1, &[0]), step(2, &[0]), step(3, &[1]), step(4, &[2, 3])],
        links: vec![Link { from: 1, to: 2, when: Some(expression(".size > 3")) }],
        output: None,
    };
    let over = vec!["input".to_owned()];
    graph.steps[2].scatter = Some(Scatter { over, method: ScatterMethod::Dot, window: 8 });
    graph
}

#[test]
fn draws_scopes_forks_loops_and_handlers() {
    let (program, states) = reviewer_assignment();
    let view = view_of(&states);
    insta::assert_binary_snapshot!("reviewer_assignment.svg", svg(&program, &view).into_bytes());
    insta::assert_snapshot!("reviewer_assignment_mermaid", mermaid(&program, &view));
}

#[test]
fn draws_jumps_competitions_graphs_and_every_state() {
    let (program, states) = everything();
    let view = view_of(&states);
    insta::assert_binary_snapshot!("everything.svg", svg(&program, &view).into_bytes());
    insta::assert_snapshot!("everything_mermaid", mermaid(&program, &view));
}

#[test]
fn an_empty_program_leads_from_start_to_end() {
    let drawn = mermaid(&Builder::new().finish(&[]), &|_| TaskView::default());
    assert!(drawn.contains("start --> finish"));
    let drawn = svg(&Builder::new().finish(&[]), &|_| TaskView::default());
    assert_eq!(drawn.matches("class=\"wire\"").count(), 1);
}

#[test]
fn text_of_a_document_cannot_become_markup() {
    let mut made = Builder::new();
    let evil = made.call("</text><script>\"&", "get", "http://x/<b>#quot;`");
    let program = made.finish(&[evil]);
    let drawn = svg(&program, &|_| TaskView::default());
    assert!(!drawn.contains("<script"));
    assert!(!drawn.contains("<b>"));
    let drawn = mermaid(&program, &|_| TaskView::default());
    assert!(drawn.contains(
        "[\"#lt;/text#gt;#lt;script#gt;#quot;#amp;<br/>GET http://x/#lt;b#gt;#35;quot;#96;\"]"
    ));
}

#[test]
fn long_text_is_cut_in_its_box_and_whole_in_the_tooltip() {
    let (program, states) = everything();
    let drawn = svg(&program, &view_of(&states));
    let name = "anOrdinaryTaskWithAnExtraordinarilyLongNameThatNobodyCanReadInOneGo";
    assert_eq!(drawn.matches(name).count(), 1);
    assert!(drawn.contains(&format!("<title>{name}: set")));
}

#[test]
fn the_legend_names_the_states_that_occur_and_no_other() {
    let mut made = Builder::new();
    let (one, two) = (made.set("one"), made.set("two"));
    let states = [(one, TaskState::Completed.into()), (two, TaskState::Running.into())];
    let drawn = svg(&made.finish(&[one, two]), &view_of(&states));
    for state in TaskState::ALL {
        let named = drawn.contains(&format!(">{}</text>", state.words()));
        assert_eq!(named, [TaskState::Completed, TaskState::Running].contains(&state), "{state:?}");
    }
}

fn views_after(program: &Program, history: &[Happening], tasks: &[TaskId]) -> Vec<TaskView> {
    let mut progress = Progress::default();
    history.iter().for_each(|happening| progress.record(happening));
    tasks.iter().map(|task| progress.view(program, *task)).collect()
}

#[test]
fn a_task_shows_its_last_run_and_how_many_completed() {
    let mut made = Builder::new();
    let (one, pause, other) = (made.set("one"), made.wait("pause", 1), made.set("other"));
    let program = made.finish(&[one, pause, other]);
    let history = [
        Happening::TaskStarted(one, Some(0)),
        Happening::TaskCompleted(one, Some(0)),
        Happening::TaskStarted(one, Some(1)),
        Happening::TaskCompleted(one, Some(1)),
        Happening::TaskStarted(one, Some(2)),
        Happening::TaskStarted(pause, None),
    ];
    let views = views_after(&program, &history, &[one, pause, other]);
    assert_eq!(
        views,
        [
            TaskView { state: TaskState::Running, count: Some(2) },
            TaskState::Waiting.into(),
            TaskState::NotStarted.into(),
        ]
    );
}

#[test]
fn an_undone_task_is_compensated_and_a_parked_one_waits() {
    let mut made = Builder::new();
    let (paid, sent) = (made.set("paid"), made.set("sent"));
    let program = made.finish(&[paid, sent]);
    let fault = Fault::new(FaultKind::Runtime, "no", "no");
    let history = [
        Happening::TaskStarted(paid, None),
        Happening::TaskCompleted(paid, None),
        Happening::TaskStarted(sent, None),
        Happening::Parked(sent, "unknown".to_owned()),
        Happening::UndoStarted(paid),
        Happening::Undone(paid),
    ];
    let tasks = [paid, sent];
    let views = views_after(&program, &history, &tasks);
    assert_eq!(views, [TaskState::Compensated.into(), TaskState::Waiting.into()]);
    let faulted = [&history[..], &[Happening::TaskFaulted(sent, fault)]].concat();
    let views = views_after(&program, &faulted, &tasks);
    assert_eq!(views, [TaskState::Compensated.into(), TaskState::Faulted.into()]);
}

#[test]
fn what_was_under_way_when_the_execution_ended_was_cancelled() {
    let mut made = Builder::new();
    let (done, open) = (made.set("done"), made.set("open"));
    let program = made.finish(&[done, open]);
    let history = [
        Happening::TaskStarted(done, None),
        Happening::TaskCompleted(done, None),
        Happening::TaskStarted(open, None),
        Happening::Ended(Outcome::Cancelled),
    ];
    let views = views_after(&program, &history, &[done, open]);
    assert_eq!(views, [TaskState::Completed.into(), TaskState::Cancelled.into()]);
}

/// What the branches of a random program are made of.
#[derive(Clone, Debug)]
enum Plant {
    Leaf(String),
    Sequence(Vec<Self>),
    Loop(Vec<Self>),
    Fork(Vec<Self>),
    Try(Vec<Self>, Vec<Self>),
    Jump(u32),
}

fn plants() -> impl Strategy<Value = Vec<Plant>> {
    let leaf =
        prop_oneof!["[a-zA-Z ]{0,60}".prop_map(Plant::Leaf), (0..4_u32).prop_map(Plant::Jump)];
    let plant = leaf.prop_recursive(4, 40, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            list().prop_map(Plant::Sequence),
            list().prop_map(Plant::Loop),
            list().prop_map(Plant::Fork),
            (list(), list()).prop_map(|(tried, handler)| Plant::Try(tried, handler)),
        ]
    });
    prop::collection::vec(plant, 0..5)
}

fn grow(made: &mut Builder, plants: &[Plant]) -> Vec<TaskId> {
    plants.iter().map(|plant| grow_one(made, plant)).collect()
}

fn grow_one(made: &mut Builder, plant: &Plant) -> TaskId {
    match plant {
        Plant::Leaf(name) => made.set(name),
        Plant::Jump(index) => {
            let task = made.set("jump");
            made.task(task).then = Flow::Goto(*index);
            task
        }
        Plant::Sequence(list) => {
            let list = grow(made, list);
            made.sequence(&list)
        }
        Plant::Loop(list) => {
            let list = grow(made, list);
            made.each("loop", "item", ".items", &list)
        }
        Plant::Fork(list) => {
            let branches = grow(made, list);
            made.add("fork", Kind::Fork { branches, compete: false })
        }
        Plant::Try(tried, handler) => {
            let (tried, handler) = (grow(made, tried), grow(made, handler));
            let handler = made.sequence(&handler);
            made.attempt("try", &tried, catch(Some(handler)))
        }
    }
}

fn assert_inside(inner: Area, outer: Area) {
    assert!(outer.x <= inner.x && inner.right() <= outer.right(), "{inner:?} in {outer:?}");
    assert!(outer.y <= inner.y && inner.bottom() <= outer.bottom(), "{inner:?} in {outer:?}");
}

fn assert_apart(areas: &[Area]) {
    for (index, one) in areas.iter().enumerate() {
        for other in &areas[index + 1..] {
            let beside = one.right() <= other.x || other.right() <= one.x;
            let below = one.bottom() <= other.y || other.bottom() <= one.y;
            assert!(beside || below, "{one:?} and {other:?} overlap");
        }
    }
}

fn assert_lane_in_order(lane: &PlacedLane<'_>) {
    let areas: Vec<Area> = lane.items.iter().map(|item| item.area).collect();
    assert_apart(&areas);
    areas.iter().for_each(|area| assert_inside(*area, lane.area));
    for corner in lane.wires.iter().flat_map(|wire| &wire.corners) {
        assert_inside(Area { x: corner.0, y: corner.1, width: 0, height: 0 }, lane.area);
    }
    lane.items.iter().for_each(assert_in_order);
}

fn assert_in_order(placed: &Placed<'_>) {
    let lanes: Vec<Area> = placed.lanes.iter().map(|lane| lane.area).collect();
    assert_apart(&lanes);
    lanes.iter().chain(&placed.bars).for_each(|area| assert_inside(*area, placed.area));
    for corner in placed.wires.iter().flat_map(|wire| &wire.corners) {
        assert_inside(Area { x: corner.0, y: corner.1, width: 0, height: 0 }, placed.area);
    }
    placed.lanes.iter().for_each(assert_lane_in_order);
}

/// A region of steps with arrows between them; arrows may lead back, as no check has run yet.
fn region(steps: usize, arrows: &[(usize, usize)]) -> Program {
    let mut made = Builder::new();
    let tasks: Vec<TaskId> = (0..steps).map(|_| made.set("step")).collect();
    let step = |(index, task): (usize, &TaskId)| {
        let needs = arrows.iter().filter(|(_, to)| to % steps == index);
        let source = |from: usize| Source::Step { step: from % steps, part: None };
        let inputs = needs.map(|(from, _)| ("input".to_owned(), source(*from))).collect();
        Step { task: *task, inputs, when: None, scatter: None }
    };
    let steps = tasks.iter().enumerate().map(step).collect();
    let graph = made.add("graph", Kind::Graph(Graph { steps, links: Vec::new(), output: None }));
    made.finish(&[graph])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn nothing_overlaps_and_nothing_leaves_its_frame(plants in plants()) {
        let mut made = Builder::new();
        let root = grow(&mut made, &plants);
        let program = made.finish(&root);
        let shape = shape::of(&program);
        let picture = layout::place(&shape);
        assert_inside(picture.lane.area, picture.area);
        assert_lane_in_order(&picture.lane);
    }

    #[test]
    fn steps_and_arrows_of_a_graph_stay_in_its_frame(
        steps in 1..9_usize,
        arrows in prop::collection::vec((0..9_usize, 0..9_usize), 0..14),
    ) {
        let program = region(steps, &arrows);
        let shape = shape::of(&program);
        let picture = layout::place(&shape);
        assert_inside(picture.lane.area, picture.area);
        assert_lane_in_order(&picture.lane);
        prop_assert_eq!(picture.lane.items[0].lanes[0].items.len(), steps);
    }
}
