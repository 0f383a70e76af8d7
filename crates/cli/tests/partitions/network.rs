//! Hosts on one switch, and links between them that can be cut in each direction.
//!
//! A cut is made where frames leave: the sender is told a wrong hardware address for the receiver,
//! so that its frames reach nobody and nothing tells it so. That needs no packet filter, holds for
//! connections that stand, and leaves the way to the ledger alone, which is the switch itself.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// Where everybody finds the ledger.
pub(crate) const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 254);
/// The hardware address of nobody.
const NOWHERE: &str = "02:00:00:00:00:ff";

/// Hosts, numbered from 1, that all reach each other unless told otherwise.
pub(crate) struct Network {
    hosts: usize,
}

impl Network {
    /// Makes hosts. Only in a sandbox: nothing is ever removed.
    pub(crate) fn of(hosts: usize) -> Self {
        let mut commands = format!(
            "link set lo up\nlink add switch type bridge\n\
             addr add {SWITCH}/24 dev switch\nlink set switch up\n"
        );
        for host in 1..=hosts {
            let name = name(host);
            commands += &format!(
                "netns add {name}\nlink add port{host} type veth peer name eth0 netns {name}\n\
                 link set port{host} master switch up\n"
            );
        }
        finish(batch(&[], &commands));
        let network = Self { hosts };
        for host in 1..=hosts {
            let commands = format!(
                "link set lo up\nlink set eth0 address {}\n\
                 addr add {}/24 dev eth0\nlink set eth0 up\n",
                hardware_address(host),
                address(host)
            );
            finish(batch(&["-n", &name(host)], &commands));
        }
        network.heal();
        network
    }

    /// Lets frames pass from one host to another only where it is said that they do.
    pub(crate) fn set(&self, passes: impl Fn(usize, usize) -> bool) {
        let hosts = 1..=self.hosts;
        let changes = hosts.clone().map(|from| {
            let neighbours = hosts.clone().filter(|to| *to != from).map(|to| {
                let there =
                    if passes(from, to) { hardware_address(to) } else { NOWHERE.to_owned() };
                format!("neigh replace {} lladdr {there} dev eth0 nud permanent\n", address(to))
            });
            batch(&["-n", &name(from)], &neighbours.collect::<String>())
        });
        // All at once, as a cable is cut.
        changes.collect::<Vec<_>>().into_iter().for_each(finish);
    }

    /// Lets everybody reach everybody.
    pub(crate) fn heal(&self) {
        self.set(|_, _| true);
    }
}

/// A command that is to run on a host.
pub(crate) fn on(host: usize, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", name(host))).arg(program);
    command
}

/// The address of a host.
pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(host).unwrap())
}

fn hardware_address(host: usize) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

fn name(host: usize) -> String {
    format!("host{host}")
}

/// Starts to change a network as a list of `ip` commands says.
fn batch(options: &[&str], commands: &str) -> Child {
    let mut ip = Command::new("ip");
    ip.args(options).args(["-batch", "-"]).stdin(Stdio::piped());
    let mut child = ip.spawn().unwrap();
    child.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    child
}

fn finish(mut child: Child) {
    assert!(child.wait().unwrap().success(), "the network is as it is told to be");
}
