//! Worker processes under fire: this program starts itself as the workers of its pools.
//!
//! It has a main of its own, because the workers speak on their standard output, where the usual test
//! harness would talk into their answers.

use std::fs;
use std::future::poll_fn;
use std::io::Write as _;
use std::process::ExitCode;
use std::task::Poll;
use std::time::Duration;

use outlast_expressions::{Value, value};
use outlast_node::workers::{EvaluationFailure, Pool, Settings, serve_stdin};
use outlast_workflow::EvaluationRequest;
use rustix::process::{Pid, Signal, kill_process};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("expression-worker") {
        return serve_stdin().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    runtime.block_on(async {
        claim("evaluates_what_is_not_bounded", evaluates_what_is_not_bounded()).await;
        claim("errors_of_expressions_come_back", errors_of_expressions_come_back()).await;
        claim("a_spent_budget_is_an_error", a_spent_budget_is_an_error()).await;
        claim("bad_ones_do_not_disturb_others", bad_ones_do_not_disturb_others()).await;
        claim("a_worker_killed_from_outside_is_replaced", killed_from_outside_is_replaced()).await;
        claim("a_program_that_is_no_worker_is_a_fault", no_worker_is_a_fault_of_the_node()).await;
        claim("refuses_more_than_may_wait", refuses_more_than_may_wait()).await;
        // The last, because it leaves processes behind that are still to be buried.
        claim("endless_ones_hold_up_each_other_only", endless_ones_hold_up_each_other()).await;
    });
    ExitCode::SUCCESS
}

async fn claim(name: &str, test: impl Future<Output = ()>) {
    test.await;
    writeln!(std::io::stderr(), "test {name} ... ok").expect("standard error takes it");
}

/// Generous deadlines: the machine may be busy, and a budget that is spent must not be a matter of luck.
fn settings() -> Settings {
    let settings = Settings::of_this_program().expect("this program knows where it is");
    Settings { deadline: Duration::from_secs(20), ..settings }
}

fn request(source: &str) -> EvaluationRequest {
    let bindings = vec![("n".to_owned(), value::integer(4))];
    let input = value::parse(r#"{"a":[1,2]}"#).expect("this is JSON");
    EvaluationRequest { source: source.to_owned(), input, bindings, timeout: None }
}

async fn evaluate(pool: &Pool, source: &str) -> Result<String, EvaluationFailure> {
    let value: Value = pool.evaluate(request(source)).await?;
    Ok(value::to_text(&value))
}

async fn spent(pool: &Pool, source: &str) -> String {
    match evaluate(pool, source).await {
        Err(EvaluationFailure::Expression(message)) => message,
        other => panic!("{source}: {other:?}"),
    }
}

async fn evaluates_what_is_not_bounded() {
    let pool = Pool::new(settings());
    assert_eq!(evaluate(&pool, "[range(5)]").await.as_deref(), Ok("[0,1,2,3,4]"));
    assert_eq!(
        evaluate(&pool, "def f: if . > 1 then . * (. - 1 | f) else 1 end; $n | f").await.as_deref(),
        Ok("24")
    );
    assert_eq!(evaluate(&pool, "empty").await.as_deref(), Ok("null"));
}

async fn errors_of_expressions_come_back() {
    let pool = Pool::new(settings());
    assert_eq!(spent(&pool, "error(\"no stock\")").await, "no stock");
    assert!(spent(&pool, "range(3)").await.contains("more than one output"));
    assert!(spent(&pool, "nonsense").await.contains("there is no function"));
    // A value that would be too deep to write down is refused by the worker, which lives on.
    assert!(spent(&pool, "reduce range(300) as $i (null; [.])").await.contains("256 deep"));
}

async fn a_spent_budget_is_an_error() {
    let pool = Pool::new(settings());
    assert_eq!(spent(&pool, "def f: 1 + f; f").await, "the expression recurses too deeply");
    let doubled = spent(&pool, "reduce range(100) as $i (\"12345678\"; . + .) | length").await;
    assert_eq!(doubled, "the expression needs more than 256 MiB of memory");
    assert!(spent(&pool, "\"x\" * 1e10 | length").await.contains("`*`"));
    let impatient = Settings { deadline: Duration::from_millis(300), ..settings() };
    let pool = Pool::new(impatient);
    let late = "the expression took longer than 300ms";
    for endless in ["def f: f; f", "reduce range(1e9) as $i (0; . + $i)"] {
        assert_eq!(spent(&pool, endless).await, late, "{endless}");
    }
    // What is spent first, time or memory, is the machine's to say.
    for growing in ["[range(1e12)]", "[repeat(.)]"] {
        let spent = spent(&pool, growing).await;
        let large = "the expression needs more than 256 MiB of memory";
        assert!([late, large].contains(&spent.as_str()), "{growing}: {spent}");
    }
    let pool = Pool::new(settings());
    let hurried =
        EvaluationRequest { timeout: Some(Duration::from_millis(200)), ..request("def f: f; f") };
    let failure = pool.evaluate(hurried).await.expect_err("it never ends");
    assert_eq!(failure.to_string(), "the expression took longer than 200ms");
}

async fn bad_ones_do_not_disturb_others() {
    let pool = Pool::new(settings());
    let mut evaluations = Vec::new();
    for number in 0..50 {
        let pool = pool.clone();
        evaluations.push(tokio::spawn(async move {
            let source = match number {
                25 => "def f: 1 + f; f".to_owned(),
                _ => format!("[range({number})] | length"),
            };
            evaluate(&pool, &source).await
        }));
    }
    for (number, evaluation) in evaluations.into_iter().enumerate() {
        let outcome = evaluation.await.expect("an evaluation does not panic");
        match number {
            25 => assert!(matches!(outcome, Err(EvaluationFailure::Expression(_))), "{outcome:?}"),
            _ => assert_eq!(outcome, Ok(number.to_string())),
        }
    }
}

async fn endless_ones_hold_up_each_other() {
    let pool = Pool::new(settings());
    let endless: Vec<_> = (0..4)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { evaluate(&pool, "def f: f; f").await })
        })
        .collect();
    // Each has twenty seconds, and there are twice as many as workers.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let quick = tokio::time::timeout(Duration::from_secs(15), evaluate(&pool, "[range(2)]"));
    assert_eq!(quick.await.expect("it is not held up").as_deref(), Ok("[0,1]"));
    assert!(endless.iter().all(|it| !it.is_finished()), "they have their whole time");
    endless.iter().for_each(tokio::task::JoinHandle::abort);
}

async fn killed_from_outside_is_replaced() {
    let pool = Pool::new(settings());
    let running = tokio::spawn({
        let pool = pool.clone();
        async move { evaluate(&pool, "reduce range(50000) as $i (0; . + 1)").await }
    });
    tokio::time::timeout(Duration::from_secs(20), async {
        while children().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a worker is started");
    for child in children() {
        kill_process(child, Signal::KILL).expect("a child can be killed");
    }
    assert_eq!(running.await.expect("an evaluation does not panic").as_deref(), Ok("50000"));
    // And one that dies while it has nothing to do.
    for child in children() {
        kill_process(child, Signal::KILL).expect("a child can be killed");
    }
    assert_eq!(evaluate(&pool, "[range(2)]").await.as_deref(), Ok("[0,1]"));
}

/// The processes that this one started and has not buried.
fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").expect("this process has threads");
    let lists =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    let numbers: Vec<i32> = lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>()
        })
        .collect();
    numbers.into_iter().filter_map(Pid::from_raw).collect()
}

async fn no_worker_is_a_fault_of_the_node() {
    for program in ["/nonexistent/outlast", "/bin/true"] {
        let pool = Pool::new(Settings { program: program.into(), ..settings() });
        let outcome = evaluate(&pool, "1").await;
        assert!(matches!(outcome, Err(EvaluationFailure::NodeFault(_))), "{program}: {outcome:?}");
    }
}

async fn refuses_more_than_may_wait() {
    let pool = Pool::new(Settings { workers: 1, waiting: 0, ..settings() });
    let mut busy = Box::pin(evaluate(&pool, "[range(3)]"));
    // Once polled, it has the only place there is.
    let started = poll_fn(|context| Poll::Ready(busy.as_mut().poll(context).is_pending())).await;
    assert!(started);
    let refused = evaluate(&pool, "1").await.expect_err("there is no place left");
    assert!(refused.to_string().contains("too many evaluations are waiting"), "{refused}");
    assert_eq!(busy.await.as_deref(), Ok("[0,1,2]"));
    assert_eq!(evaluate(&pool, "1").await.as_deref(), Ok("1"));
}
