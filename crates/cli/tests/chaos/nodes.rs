//! Nodes with many executions: what a node has acknowledged is done, once, whatever happens to it.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use outlast_node::fixture::ledger::{Expected, Verdict, check};
use outlast_simulator::Random;

use crate::disks::{SmallDisk, failing_sync, has_strace};
use crate::flows::ORDER;
use crate::server::{Server, order};
use crate::world::{PATIENCE, World, table};

/// The exit code of a disk that failed.
const STORAGE: i32 = 6;

/// Sees that every execution of these names ends, and that the ledger shows each exactly once.
fn assert_all_done(world: &World, server: &Server, names: &[String]) {
    for name in names {
        assert_eq!(server.end_of(name), "completed", "{name}");
    }
    let deeds = names.iter().flat_map(|name| [format!("{name}-1"), format!("{name}-2")]);
    let effects = deeds.map(|name| (name, 1)).collect();
    let entries = world.settled_entries();
    let judged = check(&entries, &Expected { effects, ..Expected::default() });
    assert_eq!(judged, Ok(Verdict::Complete), "{}", table(&entries));
}

#[test]
fn whatever_a_killed_node_acknowledged_is_done_once() {
    const LIVES: u64 = 8;
    let world = World::new(&ORDER);
    world.ledger.control(|control| control.all.answer_after_ms = Some(10));
    let mut random = Random::new(11);
    let mut names = Vec::new();
    let mut in_flight = 0;
    for life in 0..LIVES {
        let mut server = Server::start(&world, &[]);
        let defined = server.define(&world).expect("a node that runs answers").0;
        assert!(matches!(defined, 200 | 201), "{defined}");
        for number in 0..random.between(2, 7) {
            let name = format!("order-{life}-{number}");
            assert_eq!(server.begin(&name, 0), Some(201), "{name}");
            names.push(name);
        }
        // One more that the node may have taken or not: nobody heard. It is asked for again.
        let unheard = format!("order-{life}-unheard");
        let sent = server.send("POST", "/v1/executions", &order(&unheard, 0));
        server.life.lasts(Duration::from_micros(random.between(0, 40_000)));
        let traffic = world.ledger.traffic();
        in_flight += u64::from(traffic.answered < traffic.arrived);
        assert!(server.life.kill().was_killed());
        drop(sent);
        names.push(unheard);
    }
    let server = Server::start(&world, &[]);
    let mut known = 0;
    for name in &names {
        let again = server.begin(name, 0).expect("a node that runs answers");
        let acknowledged = !name.ends_with("unheard");
        assert!(again == 200 || (again == 201 && !acknowledged), "{name} was lost: {again}");
        known += u64::from(again == 200 && !acknowledged);
    }
    eprintln!("{} starts over {LIVES} kills, {in_flight} with calls in flight", names.len());
    eprintln!("{known} of {LIVES} starts that nobody heard of had been taken");
    assert_all_done(&world, &server, &names);
}

/// The copy is made while calls are under way and answers come in; the node dies afterwards, and
/// what is restored finishes everything, with the same keys.
#[test]
fn a_backup_of_a_busy_node_is_restored_and_goes_on() {
    let mut world = World::new(&ORDER);
    world.ledger.control(|control| control.all.answer_after_ms = Some(2000));
    let server = Server::start(&world, &[]);
    assert_eq!(server.define(&world).map(|answer| answer.0), Some(201));
    let names: Vec<String> = (0..30).map(|number| format!("order-{number}")).collect();
    for name in &names {
        assert_eq!(server.begin(name, 2000), Some(201), "{name}");
    }
    let saved = world.folder().join("saved");
    let made = outlast(&[
        "data".as_ref(),
        "backup".as_ref(),
        "--running".as_ref(),
        saved.as_os_str(),
        "--node".as_ref(),
        format!("http://{}", server.address).as_ref(),
    ]);
    assert!(made.status.success(), "{made:?}");
    let traffic = world.ledger.traffic();
    assert!(traffic.answered < 2 * names.len() as u64, "it was not busy: {traffic:?}");
    assert!(server.life.kill().was_killed());
    world.ledger.control(|control| *control = Default::default());

    let fresh = world.folder().join("fresh");
    let restored =
        outlast(&["data".as_ref(), "restore".as_ref(), saved.as_os_str(), fresh.as_os_str()]);
    assert!(restored.status.success(), "{restored:?}");
    world.move_to(&fresh);
    let server = Server::start(&world, &[]);
    for name in &names {
        assert_eq!(server.begin(name, 2000), Some(200), "{name} is not in the copy");
    }
    assert_all_done(&world, &server, &names);
}

fn outlast(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_outlast")).args(arguments).output().unwrap()
}

#[test]
fn a_node_on_a_full_disk_refuses_work_and_goes_on_when_there_is_room() {
    const SIZE: usize = 32 << 20;
    const BALLAST: usize = 300_000;
    let Some(disk) = SmallDisk::mount(&SIZE.to_string()) else { return };
    let filler = disk.fill(10 << 20, SIZE);
    let world = World::with_data(&ORDER, &disk.data());
    let mut server = Server::start(&world, &[]);
    assert_eq!(server.define(&world).map(|answer| answer.0), Some(201));
    let (mut acknowledged, mut refused) = (Vec::new(), 0);
    for number in 0..60 {
        let name = format!("order-{number}");
        match server.begin(&name, BALLAST) {
            Some(201) => acknowledged.push(name),
            Some(507) => refused += 1,
            // Taken and not stored: it is not acknowledged until there is room.
            None => {}
            Some(status) => panic!("{name}: {status}"),
        }
        if refused == 3 {
            break;
        }
    }
    assert_eq!(refused, 3, "the disk does not fill up: {} starts", acknowledged.len());
    assert_eq!(server.ask("GET", "/health", "").map(|answer| answer.0), Some(200), "it is up");
    eprintln!("{} starts acknowledged before the disk was full", acknowledged.len());

    fs::remove_file(filler).unwrap();
    let begin = Instant::now();
    while server.begin("order-later", BALLAST) != Some(201) {
        assert!(begin.elapsed() < PATIENCE, "it does not go on: {}", server.life.stderr());
        server.life.lasts(Duration::from_millis(50));
    }
    acknowledged.push("order-later".into());
    for name in &acknowledged {
        assert_eq!(server.end_of(name), "completed", "{name}");
    }
}

#[test]
fn a_node_whose_sync_fails_ends_and_has_lost_nothing_it_acknowledged() {
    if !has_strace() {
        return;
    }
    for nth in [4, 9, 30] {
        let world = World::new(&ORDER);
        // A life before, so that no sync of making the directory is hit.
        drop(Server::start(&world, &[]));
        let inject = failing_sync(nth);
        let wrapper: Vec<&str> = inject.iter().map(String::as_str).collect();
        let server = Server::start(&world, &wrapper);
        let defined = server.define(&world).map(|answer| answer.0);
        assert!(matches!(defined, Some(201) | None), "{defined:?}");
        let names = (0..200).map(|number| format!("order-{number}"));
        let acknowledged: Vec<String> =
            names.take_while(|name| server.begin(name, 0) == Some(201)).collect();
        assert!(acknowledged.len() < 200, "sync {nth} was never reached");
        let ended = server.life.end(PATIENCE);
        assert_eq!(ended.code, Some(STORAGE), "{}", ended.story());
        assert!(ended.stderr.to_lowercase().contains("input/output error"), "{}", ended.story());

        let server = Server::start(&world, &[]);
        let again = server.define(&world).map(|answer| answer.0);
        assert!(again == Some(200) || defined.is_none(), "the definition was lost: {again:?}");
        for name in &acknowledged {
            assert_eq!(server.begin(name, 0), Some(200), "sync {nth}: {name} was lost");
        }
        // The start that was not acknowledged may have been stored or not.
        let unheard = format!("order-{}", acknowledged.len());
        assert!(matches!(server.begin(&unheard, 0), Some(200 | 201)));
        let names: Vec<String> = acknowledged.into_iter().chain([unheard]).collect();
        eprintln!("sync {nth} failed after {} starts", names.len());
        assert_all_done(&world, &server, &names);
    }
}

/// A request as a careless or hostile client sends it.
fn garbage(random: &mut Random, server: &Server) -> Vec<u8> {
    let body = order("order-garbage", 64);
    let whole = format!(
        "POST /v1/executions HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    let mut bytes = whole.into_bytes();
    match random.between(0, 4) {
        0 => (0..random.between(1, 4000)).map(|_| random.next() as u8).collect(),
        1 => {
            for _ in 0..random.between(1, 20) {
                let at = random.between(0, bytes.len() as u64 - 1);
                bytes[usize::try_from(at).unwrap()] = random.next() as u8;
            }
            bytes
        }
        2 => bytes[..usize::try_from(random.between(1, bytes.len() as u64 - 1)).unwrap()].to_vec(),
        3 => [b"GET /health HTTP/1.1\r\nx: ".to_vec(), vec![b'a'; 300_000]].concat(),
        _ => {
            let head = format!(
                "POST /v1/definitions HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n",
                server.address
            );
            let chunk = format!("80000\r\n{}\r\n", "[".repeat(0x8_0000));
            (head + &chunk.repeat(16)).into_bytes()
        }
    }
}

#[test]
fn garbage_leaves_a_node_up_and_its_memory_bounded() {
    const ROUNDS: usize = 400;
    let world = World::new(&ORDER);
    let server = Server::start(&world, &[]);
    assert_eq!(server.define(&world).map(|answer| answer.0), Some(201));
    let before = server.resident_bytes();
    let mut random = Random::new(3);
    let mut halves = Vec::new();
    for round in 0..ROUNDS {
        let bytes = garbage(&mut random, &server);
        let mut stream = TcpStream::connect(server.address).unwrap();
        // It may be refused before all of it was read.
        let _ = stream.write_all(&bytes);
        if round % 4 == 0 {
            // This one never says more and never hangs up.
            halves.push(stream);
            continue;
        }
        let _ = stream.shutdown(Shutdown::Write);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let told = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        let fine = answer.starts_with("HTTP/1.1 2");
        assert!(told || fine, "round {round}: {answer}");
    }
    assert_eq!(server.begin("order-meanwhile", 0), Some(201), "{} halves hang", halves.len());
    assert_eq!(server.end_of("order-meanwhile"), "completed");
    let grown = server.resident_bytes().saturating_sub(before);
    eprintln!("{ROUNDS} bad requests, {} of them hanging: {} KiB more", halves.len(), grown >> 10);
    assert!(grown < 64 << 20, "{grown} bytes more than before");
}
