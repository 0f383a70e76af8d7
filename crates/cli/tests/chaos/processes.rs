//! What else happens to processes: killed while undoing, killed again and again, stopped for a
//! while, and lied to about the time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use outlast_node::fixture::skip;

use crate::flows::{CLOCK, Flow, LOOP, ROLLBACK, TIMERS};
use crate::judge::{self, Course};
use crate::life::{Ended, Life, Waited};
use crate::world::{PATIENCE, World, table};

/// How long a process is stopped; half a minute with OUTLAST_LONG=1.
fn stop_time() -> Duration {
    let long = std::env::var("OUTLAST_LONG").is_ok_and(|value| value == "1");
    Duration::from_secs(if long { 30 } else { 5 })
}

fn assert_as_it_should_be(world: &World, ended: &Ended) {
    let entries = world.settled_entries();
    let expected = Some(world.flow.end.code());
    assert_eq!(ended.code, expected, "{}\n{}", ended.story(), table(&entries));
    let problems = judge::problems(world.flow, &entries, Course::default());
    assert!(problems.is_empty(), "{problems:?}\n{}", table(&entries));
}

/// Every undo is the last thing one life sees: its effect has happened, its answer has not.
#[test]
fn killed_at_every_undo_it_still_undoes_everything_once() {
    let world = World::new(&ROLLBACK);
    for name in ROLLBACK.deeds {
        let path = format!("/undo/{name}");
        world.ledger.control(|control| {
            control.paths.entry(path).or_default().answer_after_ms = Some(300);
        });
    }
    let undone = || judge::undos(&world.ledger.entries()).count();
    for count in 1..=ROLLBACK.deeds.len() {
        let mut life = world.start();
        let waited = life.until(PATIENCE, || count <= undone());
        assert_eq!(waited, Waited::Holds, "{}", life.stderr());
        let ended = life.kill();
        assert!(ended.was_killed(), "{}", ended.story());
        assert_eq!(undone(), count, "one undo at a time:\n{}", table(&world.ledger.entries()));
    }
    assert_as_it_should_be(&world, &world.start().end(PATIENCE));
}

#[test]
fn killed_every_fifth_of_a_second_it_finishes_when_it_is_let() {
    let world = World::new(&LOOP);
    world.ledger.control(|control| control.all.answer_after_ms = Some(190));
    let mut kills = 0;
    for _ in 0..20 {
        let mut life = world.start();
        // From its first word on, so that a busy machine does not keep it from doing anything.
        life.until_says(PATIENCE, "execution");
        if life.lasts(Duration::from_millis(200)) == Waited::Ended {
            assert_eq!(life.end(PATIENCE).code, Some(0));
            break;
        }
        kills += u64::from(life.kill().was_killed());
    }
    eprintln!("{kills} kills, {} calls", world.ledger.traffic().arrived);
    world.ledger.control(|control| control.all.answer_after_ms = None);
    assert_as_it_should_be(&world, &world.start().end(PATIENCE));
    assert!(10 <= kills, "it was killed only {kills} times");
}

#[test]
fn stopped_for_a_while_it_goes_on() {
    for (flow, calls) in [(&LOOP, 4), (&TIMERS, 1)] {
        let world = World::new(flow);
        let mut life = world.start();
        let waited = life.until(PATIENCE, || calls <= world.ledger.traffic().answered);
        assert_eq!(waited, Waited::Holds, "{}", life.stderr());
        life.signal("-STOP");
        let arrived = world.ledger.traffic().arrived;
        life.lasts(stop_time());
        assert!(world.ledger.traffic().arrived <= arrived + 1, "it was not stopped");
        life.signal("-CONT");
        assert_as_it_should_be(&world, &life.end(PATIENCE));
    }
}

/// The library that lies about the time, if it is there.
fn time_library() -> Option<String> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/lib"];
    let files = folders.map(|folder| format!("{folder}/faketime/libfaketimeMT.so.1"));
    let found = files.into_iter().find(|file| Path::new(file).exists());
    if found.is_none() {
        skip("libfaketime is not installed (Debian: faketime)");
    }
    found
}

/// `outlast run` under a clock that a file can turn.
fn with_clock(world: &World, library: &str, clock: &Path) -> Life {
    let mut command = world.command(true);
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", clock)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Life::start(&mut command)
}

/// How long the wait of a flow took, by the ledger's clock, which nobody turns.
fn waited(world: &World, flow: &Flow) -> Duration {
    let entries = world.settled_entries();
    let (before, after, _) = flow.waits[0];
    let time = |name: &str| judge::deeds(&entries).find(|deed| deed.name == name).unwrap().time_us;
    Duration::from_micros(time(after) - time(before))
}

#[test]
fn a_clock_that_jumps_fires_no_timer_early_and_none_late() {
    let Some(library) = time_library() else { return };
    for jump in ["+3600", "-3600"] {
        let world = World::new(&CLOCK);
        let clock = world.folder().join("clock");
        fs::write(&clock, "+0\n").unwrap();
        let mut life = with_clock(&world, &library, &clock);
        let begun = life.until(PATIENCE, || 0 < world.ledger.traffic().answered);
        assert_eq!(begun, Waited::Holds, "{}", life.stderr());
        life.lasts(Duration::from_millis(200));
        fs::write(&clock, format!("{jump}\n")).unwrap();
        let ended = life.end(PATIENCE);
        assert_as_it_should_be(&world, &ended);
        let time = waited(&world, &CLOCK);
        eprintln!("clock turned by {jump} s: a wait of 1.5 s took {:.3} s", time.as_secs_f64());
        // An hour early or late cannot be mistaken for a busy machine.
        assert!(Duration::from_millis(1500) <= time && time < PATIENCE, "{jump}: {time:?}");
    }
}

/// What a machine does that was off for a while: the wait goes on, it does not begin anew.
#[test]
fn a_wait_goes_on_over_a_kill() {
    let world = World::new(&CLOCK);
    let mut life = world.start();
    let begun = life.until(PATIENCE, || 0 < world.ledger.traffic().answered);
    assert_eq!(begun, Waited::Holds, "{}", life.stderr());
    life.lasts(Duration::from_millis(1400));
    assert!(life.kill().was_killed());
    let mut next = world.start();
    next.until_says(PATIENCE, "execution");
    let resumed = Instant::now();
    next.until(PATIENCE, || 1 < world.ledger.traffic().arrived);
    let rest = resumed.elapsed();
    assert!(rest < Duration::from_millis(1400), "it began anew: {rest:?} after the second start");
    assert_as_it_should_be(&world, &next.end(PATIENCE));
}
