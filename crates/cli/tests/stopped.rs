//! A node whose process is stopped, as by SIGSTOP or a hanging disk: connections to it stand, and nothing is answered.

use std::process::{Output, Stdio};

mod processes;

use processes::{Process, outlast, until};

const FLOW: &str = "document: { dsl: '1.0.3', namespace: test, name: nap, version: '1.0.0' }
do:
  - nap: { wait: { minutes: 10 } }
";

fn said(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn whoever_asks_a_node_that_is_stopped_or_waits_for_an_end_there_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Process::default();
    let mut command = outlast(&["node", "--no-token", "--json", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(directory.path().join("node"));
    let address = node.start(command, None)["address"].as_str().unwrap().to_owned();
    let ask = |arguments: &[&str]| {
        let mut asked = outlast(arguments);
        asked.env("OUTLAST_NODE", &address).stdout(Stdio::piped()).stderr(Stdio::piped());
        asked
    };
    let flow = directory.path().join("nap.yaml");
    std::fs::write(&flow, FLOW).unwrap();
    let waiting = ask(&["start", flow.to_str().unwrap(), "--wait"]).spawn().unwrap();
    until("the execution is there", || {
        let listed = ask(&["ps", "--json", "--status", "waiting"]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).contains("\"nap\"")
    });
    node.signal("STOP");
    let listed = ask(&["ps"]).output().unwrap();
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    let silent = format!("{address}/ takes connections and does not answer");
    assert!(said(&listed).contains(&silent), "{listed:?}");
    let waited = waiting.wait_with_output().unwrap();
    assert_eq!(waited.status.code(), Some(7), "{waited:?}");
    let told = said(&waited);
    assert!(told.contains(&silent) && told.contains("was started and goes on"), "{told}");
}
