//! `outlast demo`: a cluster on this machine that is killed and cut apart while it runs a flow.
//!
//! The nodes are processes of this same binary. What happens to them is drawn from a seed (`plan`) and
//! bound to steps of the flow, not to times. What they do is heard from themselves and from the service
//! that they call (`stage`), told as it happens (`story`), judged at the end, and drawn (`drawing`).
//!
//! Only processes that the demo started are ever killed, and all of them are gone when it ends,
//! however it ends: they belong to values that end them when they are dropped.

mod drawing;
mod nodes;
mod page;
mod plan;
mod stage;
mod story;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use outlast_node::fixture::ledger::{Expected, Verdict, check};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::signals;
use nodes::Directory;
use plan::Plan;
use stage::Stage;
use story::{Story, What};

/// How long the flow may stand still before something is wrong, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long both sides of a cut are waited for.
const APART_MAX: Duration = Duration::from_secs(8);
/// How long the sides have to find each other before the next thing is broken.
const REUNION_MAX: Duration = Duration::from_secs(4);
/// When nothing was called for so long after the end, nothing will be.
const QUIET: Duration = Duration::from_millis(700);

/// Watch a cluster on this machine outlast kills and cuts, and draw what happened
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  outlast demo                                    five nodes, drawn in outlast-demo.html
  outlast demo --seed 7 --output seven.html       break something else
  outlast demo --json --output demo.svg           what happened for programs, and the drawing alone

Every node is a process of its own on loopback, without root. Partitions are cut inside the nodes'
transport. The exit code is 0 if exactly one run's effects remain.")]
pub(crate) struct Arguments {
    /// Where the drawing goes; one that ends with .svg is the drawing without the page around it
    #[arg(long, default_value = "outlast-demo.html", value_name = "FILE")]
    output: PathBuf,
    /// How many nodes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: u8,
    /// How many steps the flow has
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(12..=200))]
    steps: u64,
    /// What is broken when
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the data of the nodes, and say where it is
    #[arg(long)]
    keep: bool,
    /// Print what happened as JSON at the end; what happens is told on stderr then
    #[arg(long)]
    json: bool,
}

/// Runs the demo to its end, or until it is told to end.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let (exit, is_interrupted) = runtime.block_on(async {
        tokio::select! {
            shown = show(arguments) => (shown, false),
            told = signals::told_to_end() => (told, true),
        }
    });
    runtime.shutdown_background();
    if is_interrupted {
        signals::last_word("interrupted: the nodes were stopped, and nothing is drawn");
    }
    exit
}

async fn show(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { nodes, steps, seed, keep, .. } = *arguments;
    ensure_writable(&arguments.output)?;
    let plan = Plan::draw(seed, nodes.into(), steps);
    tell!("{nodes} nodes, {steps} steps, seed {seed}; starting the nodes");
    let directory = Directory::new(keep)?;
    let mut stage = Stage::set(nodes.into(), steps, directory, arguments.json).await?;
    let played = match play(&mut stage, &plan).await {
        Ok(()) => settle(&mut stage).await,
        failed => failed,
    };
    stage.story.sort();
    stage.say(&page::summary(&stage.story));
    if arguments.json {
        println!("{}", report(&stage.story, seed, played.is_ok()));
    }
    write(&arguments.output, &stage.story, seed)?;
    tell!("drawn in {}", arguments.output.display());
    played.map(|()| Exit::Completed)
}

/// Runs the flow, and breaks things meanwhile.
async fn play(stage: &mut Stage, plan: &Plan) -> anyhow::Result<()> {
    stage.begin().await?;
    let victim = kill_the_primary(stage, plan.first_kill).await?;
    let apart = stage.story.furthest() + plan.until_cut;
    reach(stage, apart).await?;
    cut_and_heal(stage, plan, victim).await?;
    let victim = kill_the_primary(stage, plan.second_kill).await?;
    let back = stage.story.furthest() + plan.away;
    reach(stage, back).await?;
    stage.restart(victim, &[]).await
}

/// Kills who leads when a step is done.
async fn kill_the_primary(stage: &mut Stage, step: u64) -> anyhow::Result<usize> {
    reach(stage, step).await?;
    let primary = stage.story.leader().context("nobody did a step")?;
    stage.kill(primary);
    Ok(primary)
}

/// Cuts those apart who are alive, waits until every side has gone on by itself, starts the one again
/// that is dead, and heals.
async fn cut_and_heal(stage: &mut Stage, plan: &Plan, dead: usize) -> anyhow::Result<()> {
    let sides = plan.sides(Some(dead));
    stage.cut(&sides).await?;
    let (since, furthest) = (stage.story.now(), stage.story.furthest());
    stage
        .watch(APART_MAX, |stage| {
            let active = stage.story.steppers(since);
            let all = sides.iter().all(|side| side.iter().any(|node| active.contains(node)));
            all && furthest + plan.apart <= stage.story.furthest()
        })
        .await;
    stage.restart(dead, &sides).await?;
    stage.heal().await?;
    let since = stage.story.now();
    let met = |what: &What| matches!(what, What::LineLost | What::StoodDown);
    stage
        .watch(REUNION_MAX, |stage| {
            stage.story.events[since..].iter().any(|event| met(&event.what))
        })
        .await;
    Ok(())
}

/// Waits until a step is begun by anyone, or the run is decided on.
async fn reach(stage: &mut Stage, step: u64) -> anyhow::Result<()> {
    let step = step.min(stage.story.steps);
    let reached = |stage: &Stage| step <= stage.story.furthest() || stage.story.is_decided();
    ensure!(stage.watch(PATIENCE, reached).await, "step {step} was not reached in {PATIENCE:?}");
    Ok(())
}

/// Waits until every node knows the end and exactly one run's effects remain.
async fn settle(stage: &mut Stage) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let calls = stage.story.now();
        stage.watch(QUIET, |stage| calls < stage.story.now()).await;
        let verdict = one_run(stage);
        let quiet = calls == stage.story.now();
        if quiet && verdict.is_ok() && ended(stage).await? {
            stage.happened(None, What::Ended("completed".to_owned()));
            return Ok(());
        }
        if let Err(problem) = verdict
            && deadline <= Instant::now()
        {
            return Err(problem);
        }
        ensure!(Instant::now() < deadline, "not every node knows the end after {PATIENCE:?}");
    }
}

/// Whether every node says that the execution is completed.
async fn ended(stage: &Stage) -> anyhow::Result<bool> {
    for node in 0..stage.story.nodes {
        if stage.condition(node).await? != "completed" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the service shows each step once, and nothing else.
fn one_run(stage: &Stage) -> anyhow::Result<()> {
    let effects: BTreeMap<_, _> =
        (1..=stage.story.steps).map(|step| (format!("hall-{step}"), 1)).collect();
    let expected = Expected { effects, ..Expected::default() };
    match check(&stage.ledger.entries(), &expected) {
        Ok(Verdict::Complete) => Ok(()),
        Ok(Verdict::Compensated) => bail!("nothing is left of the run"),
        Err(problems) => bail!("what remains is not one run: {problems:?}"),
    }
}

/// Finds out at once whether there will be a drawing, and leaves everything as it was.
fn ensure_writable(output: &Path) -> anyhow::Result<()> {
    let is_new = !output.exists();
    File::options()
        .append(true)
        .create(true)
        .open(output)
        .with_context(|| format!("--output: cannot write {}", output.display()))?;
    if is_new {
        fs::remove_file(output)?;
    }
    Ok(())
}

fn write(output: &Path, story: &Story, seed: u64) -> anyhow::Result<()> {
    let drawing = drawing::svg(story);
    let is_svg = output.extension().is_some_and(|it| it.eq_ignore_ascii_case("svg"));
    let text = if is_svg { drawing } else { page::html(story, &drawing, seed) };
    fs::write(output, text).with_context(|| format!("cannot write {}", output.display()))
}

/// What happened, for programs.
fn report(story: &Story, seed: u64, one_run: bool) -> Json {
    json!({
        "seed": seed,
        "nodes": story.nodes,
        "steps": story.steps,
        "oneRun": one_run,
        "calls": story.stepped(0).count(),
        "undone": story.undone().len(),
        "longestPauseMs": story.longest_pause().0 / 1000,
        "events": story.events.iter().map(Story::json).collect::<Vec<_>>(),
    })
}
