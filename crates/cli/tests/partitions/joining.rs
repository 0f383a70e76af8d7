//! Joining from another machine: a new member is where the others reach it, or it does not join.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};

use outlast_node::http::read_token;
use serde_json::Value as Json;
use tempfile::TempDir;

use super::network::{self, Network};
use super::processes::{Api, Process, is_connected, outlast, until, without_surroundings};
use super::sandbox::in_a_sandbox;

/// The hosts of the first node and of whoever joins.
const FIRST: usize = 1;
const SECOND: usize = 2;

/// A cluster of one node, and a second machine on its network.
struct Founded {
    _first: Process,
    api: Api,
    directory: TempDir,
    _network: Network,
}

impl Founded {
    fn new() -> Self {
        let network = Network::of(2);
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("first");
        let founded = outlast(&["cluster", "init", "--data"]).arg(&data).output().unwrap();
        assert!(founded.status.success(), "{founded:?}");
        let ip = network::address(FIRST);
        let mut command = node(FIRST, &data);
        command.args(["--listen", &format!("{ip}:7180")]);
        command.args(["--cluster-listen", &format!("{ip}:7181")]);
        let mut first = Process::default();
        first.start(command, None);
        let token = Some(read_token(&data).unwrap());
        let api = Api { address: SocketAddr::from((ip, 7180)), token };
        Self { _first: first, api, directory, _network: network }
    }

    /// What to join with, as `outlast cluster invite` prints it.
    fn invited(&self) -> [String; 4] {
        let (status, said) = self.api.ask("POST", "/v1/cluster/invitations", "{}");
        assert_eq!(status, 201, "{said}");
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        ["--join".into(), text(&said["addresses"][0]), "--token".into(), text(&said["token"])]
    }

    /// Starts a node on the second machine, and waits until it and the first reach each other.
    fn reaches(&self, name: &str, arguments: &[&str]) -> (Process, Json) {
        let mut command = node(SECOND, &self.directory.path().join(name));
        command.args(arguments);
        let mut process = Process::default();
        let said = process.start(command, None);
        let id = said["node"].as_str().unwrap();
        until("the first reaches it", || {
            is_connected(&self.api.ask("GET", "/v1/cluster", "").1, id)
        });
        (process, said["clusterAddress"].clone())
    }

    /// Starts a node on the second machine that is to end by itself.
    fn ends(&self, name: &str, arguments: &[&str]) -> Output {
        // What runs on is ended, so that it can be told from what ends.
        let mut command = network::on(SECOND, "timeout");
        command.args(["10", env!("CARGO_BIN_EXE_outlast"), "node", "--data"]);
        without_surroundings(command.arg(self.directory.path().join(name)).args(arguments));
        command.output().unwrap()
    }
}

fn node(host: usize, data: &Path) -> Command {
    let mut command = network::on(host, env!("CARGO_BIN_EXE_outlast"));
    without_surroundings(&mut command);
    command.args(["node", "--json", "--data"]).arg(data);
    command
}

#[test]
fn a_node_that_joins_as_the_invitation_says_is_reached_by_the_others() {
    in_a_sandbox(|| {
        let cluster = Founded::new();
        let invited = cluster.invited();
        let (process, at) = cluster.reaches("second", &invited.each_ref().map(String::as_str));
        assert_eq!(at, "10.77.0.2:7181");
        drop(process);
        // Nor does it have to be told when it is started again.
        let (_process, at) = cluster.reaches("second", &[]);
        assert_eq!(at, "10.77.0.2:7181");
    });
}

#[test]
fn a_node_that_listens_everywhere_is_where_it_joins_from() {
    in_a_sandbox(|| {
        let cluster = Founded::new();
        let everywhere = ["--cluster-listen", "0.0.0.0:7999"];
        let invited = cluster.invited();
        let arguments: Vec<&str> =
            everywhere.into_iter().chain(invited.iter().map(String::as_str)).collect();
        let (process, at) = cluster.reaches("second", &arguments);
        assert_eq!(at, "10.77.0.2:7999");
        drop(process);
        let (_process, at) = cluster.reaches("second", &everywhere);
        assert_eq!(at, "10.77.0.2:7999");
    });
}

#[test]
fn whoever_could_not_be_reached_by_the_others_does_not_join() {
    in_a_sandbox(|| {
        let cluster = Founded::new();
        let invited = cluster.invited();
        let invited = invited.each_ref().map(String::as_str);
        let unreachable: [&[&str]; 2] = [
            &["--cluster-listen", "127.0.0.1:7181"],
            &["--cluster-listen", "0.0.0.0:7181", "--cluster-address", "127.0.0.1:7181"],
        ];
        for (number, arguments) in unreachable.into_iter().enumerate() {
            let refused = cluster.ends(&number.to_string(), &[arguments, &invited].concat());
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{said}");
            assert!(said.contains("give --cluster-address"), "{said}");
        }
        let (status, seen) = cluster.api.ask("GET", "/v1/cluster", "");
        assert_eq!((status, seen["members"].as_array().unwrap().len()), (200, 1), "{seen}");
        // The token is still good.
        cluster.reaches("second", &invited);
    });
}
