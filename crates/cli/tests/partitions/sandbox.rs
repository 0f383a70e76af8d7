//! Tests that run in namespaces of their own: the test starts itself again in new ones.
//!
//! Nothing has to be removed afterwards: when the test's process ends, however it ends, the system
//! ends everything in its process namespace and takes the network and the mounts away with it.
//! Tests that run at the same time do not see each other. Where ordinary users may make namespaces,
//! none of this needs root.

use std::any::type_name_of_val;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use outlast_node::fixture::skip;

/// Set in the process that runs in the namespaces.
const INSIDE: &str = "OUTLAST_IN_A_SANDBOX";
/// What is shared with nobody: network, processes, and mounts, so that `ip netns` has a folder.
const NAMESPACES: [&str; 8] = [
    "--net",
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];
/// Where `ip netns` keeps its names, and then the rest of the command.
const PREPARE: &str = "mount -t tmpfs tmpfs /run && mkdir /run/netns && exec \"$@\"";

/// How namespaces can be made here, if they can: as the root of a user namespace, or as root.
static WAY: LazyLock<Option<&[&str]>> = LazyLock::new(|| {
    let ways: [&[&str]; 2] = [&["--user", "--map-root-user"], &[]];
    let attempt = "ip link add trial type bridge && ip netns add trial && \
                   nsenter --net=/run/netns/trial true";
    let works = |way: &&[&str]| {
        let mut trial = unshare(way);
        trial.args(["sh", "-c", attempt]).stdout(Stdio::null()).stderr(Stdio::null());
        trial.status().is_ok_and(|status| status.success())
    };
    ways.into_iter().find(works)
});

/// Runs a test in namespaces of its own. To be called with a closure, straight from the test.
pub(crate) fn in_a_sandbox<T: FnOnce()>(test: T) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let name = test_of(&test);
    let Some(way) = *WAY else {
        return skip(
            "it makes networks of its own, which takes unshare, nsenter and ip (util-linux, \
             iproute2) and either root or namespaces for ordinary users",
        );
    };
    let mut again = unshare(way);
    again.arg(std::env::current_exe().unwrap());
    again.args(["--exact", &name, "--nocapture"]).env(INSIDE, "1");
    let output = again.output().unwrap();
    let (said, talk) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprint!("{talk}");
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{name} failed in its sandbox\n{said}");
}

fn unshare(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(NAMESPACES).args(["sh", "-c", PREPARE, "sh"]);
    command
}

/// The name by which the test harness knows the function that made a closure.
fn test_of<T>(test: &T) -> String {
    let name = type_name_of_val(test);
    let (_krate, path) = name.split_once("::").expect("a test is in a crate");
    path.trim_end_matches("::{{closure}}").to_owned()
}
