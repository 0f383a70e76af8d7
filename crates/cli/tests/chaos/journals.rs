//! Data directories that were damaged, or are in use: a torn tail is cut off, everything else is
//! refused with its place.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outlast_simulator::Random;

use crate::flows::LOOP;
use crate::judge::{self, Course};
use crate::life::{Life, Waited};
use crate::world::{PATIENCE, World, table};

/// Where the records of a segment begin.
const HEADER: u64 = 4096;
/// The exit code of a data directory that cannot be used.
const STORAGE: i32 = 6;

/// Runs until so many calls have had their effect, and kills it.
fn killed_after(world: &World, calls: u64) {
    let mut life = world.start();
    let waited = life.until(PATIENCE, || calls <= world.ledger.traffic().recorded);
    assert_eq!(waited, Waited::Holds, "{}", life.stderr());
    assert!(life.kill().was_killed());
}

/// Runs to the end and judges the ledger.
fn completes(world: &World) {
    let ended = world.start().end(PATIENCE);
    let entries = world.settled_entries();
    let problems = judge::problems(world.flow, &entries, Course::default());
    assert_eq!(ended.code, Some(0), "{}", ended.story());
    assert!(problems.is_empty(), "{problems:?}\n{}", table(&entries));
}

fn last_segment(world: &World) -> PathBuf {
    let folder = fs::read_dir(world.data().join("journal")).unwrap();
    let files = folder.map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|it| it == "segment")).max().unwrap()
}

/// The byte after the last that is not zero.
fn end_of_records(segment: &Path) -> u64 {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn data_check(world: &World) -> crate::life::Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlast"));
    command.args(["data", "check"]).arg(world.data());
    Life::start(&mut command).end(PATIENCE)
}

/// What a power cut does to the last write, and worse: from some byte on, nothing reached the disk.
/// What is then done again carries the same keys.
#[test]
fn a_journal_torn_anywhere_goes_on_and_nothing_is_done_twice() {
    let mut random = Random::new(5);
    for round in 0..6 {
        // Even the record of the start may be cut off: with its id given, it begins as it began.
        let mut world = World::new(&LOOP);
        world.id = "01a1e11b-66cf-7928-a472-d7e6c180758d";
        killed_after(&world, random.between(1, 8));
        let segment = last_segment(&world);
        let end = end_of_records(&segment);
        let cut = random.between(HEADER + 1, end - 1);
        let file = OpenOptions::new().write(true).open(&segment).unwrap();
        let rest = vec![0; usize::try_from(end - cut).unwrap()];
        file.write_all_at(&rest, cut).unwrap();
        eprintln!("round {round}: records end at byte {end}, cut at {cut}");
        completes(&world);
    }
}

#[test]
fn a_flipped_bit_is_refused_with_its_place_and_changes_nothing() {
    let world = World::new(&LOOP);
    killed_after(&world, 6);
    let segment = last_segment(&world);
    let mut byte = [0];
    // In the payload of the first record: later ones prove that it had been stored.
    let at = HEADER + 30;
    let file = OpenOptions::new().read(true).write(true).open(&segment).unwrap();
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    let calls = world.ledger.traffic().arrived;

    let refused = world.start().end(PATIENCE);
    assert_eq!(refused.code, Some(STORAGE), "{}", refused.story());
    let name = segment.file_name().unwrap().to_str().unwrap();
    for part in [name, "byte 4096"] {
        assert!(refused.stderr.contains(part), "no `{part}` in {}", refused.story());
    }
    assert_eq!(world.ledger.traffic().arrived, calls, "nothing was called");
    let checked = data_check(&world);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert_ne!(checked.code, Some(0), "{}", checked.story());
    assert!(said.contains(name) && said.contains("byte 4096"), "{said}");

    file.write_all_at(&byte, at).unwrap();
    let checked = data_check(&world);
    assert_eq!(checked.code, Some(0), "{}", checked.story());
    completes(&world);
}

#[test]
fn a_second_process_is_refused_and_the_first_is_not_disturbed() {
    let world = World::new(&LOOP);
    world.ledger.control(|control| control.all.answer_after_ms = Some(150));
    let mut first = world.start();
    let waited = first.until(PATIENCE, || 0 < world.ledger.traffic().recorded);
    assert_eq!(waited, Waited::Holds, "{}", first.stderr());
    let second = world.start().end(PATIENCE);
    assert_eq!(second.code, Some(STORAGE), "{}", second.story());
    let owner = format!("in use by process {}", first.id());
    assert!(second.stderr.contains(&owner), "{}", second.story());
    let ended = first.end(PATIENCE + Duration::from_secs(30));
    assert_eq!(ended.code, Some(0), "{}", ended.story());
    let entries = world.settled_entries();
    assert_eq!(judge::problems(&LOOP, &entries, Course::default()), [""; 0], "{}", table(&entries));
}
