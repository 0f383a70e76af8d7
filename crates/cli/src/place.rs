//! Where a node listens for other nodes, and where these are told to find it.
//!
//! Whatever was not said follows from the way to the others: the address of this machine that they see. A
//! member that nobody reaches is worse than none, so whoever would be one is told what to say.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use outlast_node::cluster::{self, Way};
use tokio::net::TcpListener;

use crate::exit::Failure;

/// The port for other nodes, unless it is said.
const PORT: u16 = 7181;

/// Where a node listens for others, and where they are told to find it.
pub(crate) struct Place {
    pub(crate) listener: TcpListener,
    /// Nothing is where it listens.
    pub(crate) advertised: Vec<String>,
}

/// What was said about the place of a node, and what was made of it so far.
pub(crate) struct Wanted<'a> {
    listen: Option<SocketAddr>,
    told: &'a [String],
    listener: Option<TcpListener>,
}

/// What is to be made of it.
#[derive(PartialEq, Eq, Debug)]
struct Plan {
    listen: SocketAddr,
    /// The address that others are told, if nobody said one and it is not where the node listens.
    reached: Option<IpAddr>,
}

impl<'a> Wanted<'a> {
    /// Listens at once where that was said: what does not work is to be told before anybody is asked.
    pub(crate) async fn new(
        listen: Option<SocketAddr>,
        told: &'a [String],
    ) -> anyhow::Result<Self> {
        let listener = match listen {
            Some(listen) => Some(cluster::listen(listen).await?),
            None => None,
        };
        Ok(Self { listen, told, listener })
    }

    /// The place of a node that gets to the others by a way.
    pub(crate) async fn on(self, way: Way) -> anyhow::Result<Place> {
        let plan = planned(self.listen, self.told, way)?;
        let listener = match self.listener {
            Some(listener) => listener,
            None => cluster::listen(plan.listen).await?,
        };
        let port = listener.local_addr()?.port();
        let reached = plan.reached.map(|ip| SocketAddr::new(ip, port).to_string());
        let advertised = self.told.iter().cloned().chain(reached).collect();
        Ok(Place { listener, advertised })
    }
}

impl Place {
    /// Whether nodes of other machines, who are at the other end of a way, are told where this one is.
    pub(crate) fn check_reached_from(&self, way: IpAddr) -> anyhow::Result<()> {
        let at = self.listener.local_addr()?;
        let told = match self.advertised.is_empty() {
            true => vec![at.to_string()],
            false => self.advertised.clone(),
        };
        if way.is_loopback() || !told.iter().all(|address| is_loopback(address)) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the other nodes would be told to reach this one at {}, which is no way to this machine: \
             give --cluster-address HOST:PORT, or neither that nor --cluster-listen, to listen on {}",
            told.join(", "),
            SocketAddr::new(way, PORT)
        ))
        .into())
    }
}

fn planned(listen: Option<SocketAddr>, told: &[String], way: Way) -> Result<Plan, Failure> {
    match (listen, way) {
        (None, Way::From(ip)) if !ip.is_loopback() => {
            Ok(Plan { listen: SocketAddr::new(ip, PORT), reached: None })
        }
        (None, Way::Unknown) => Err(Failure::usage(
            "this machine knows no way to the other members, so it is not known where they would reach \
             this node: give --cluster-listen ADDRESS, or start it again when the network is there",
        )),
        (None, _) => {
            Ok(Plan { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), reached: None })
        }
        (Some(listen), _) if !listen.ip().is_unspecified() || !told.is_empty() => {
            Ok(Plan { listen, reached: None })
        }
        // Whoever listens at all addresses of the newer kind listens at those of the older one as well.
        (Some(listen), Way::From(ip)) if ip.is_ipv4() || listen.is_ipv6() => {
            Ok(Plan { listen, reached: Some(ip) })
        }
        (Some(listen), _) => Err(Failure::usage(format!(
            "--cluster-listen {listen} does not say where other nodes reach this one: \
             give --cluster-address HOST:PORT, too"
        ))),
    }
}

/// Whether an address leads back to whoever asks.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: &str = "127.0.0.1:7181";

    fn place(listen: Option<&str>, told: &[&str], way: Way) -> Option<(String, Option<IpAddr>)> {
        let told: Vec<String> = told.iter().map(|&it| it.to_owned()).collect();
        let plan = planned(listen.map(|it| it.parse().unwrap()), &told, way).ok()?;
        Some((plan.listen.to_string(), plan.reached))
    }

    fn from(ip: &str) -> Way {
        Way::From(ip.parse().unwrap())
    }

    #[test]
    fn a_node_that_is_told_nothing_listens_where_the_others_see_it() {
        let at = |way| place(None, &[], way).map(|(listen, _)| listen);
        assert_eq!(at(from("10.0.0.2")).as_deref(), Some("10.0.0.2:7181"));
        assert_eq!(at(from("2001:db8::2")).as_deref(), Some("[2001:db8::2]:7181"));
        assert_eq!(at(from("127.0.0.1")).as_deref(), Some(LOOPBACK));
        assert_eq!(at(Way::Nowhere).as_deref(), Some(LOOPBACK));
        assert_eq!(at(Way::Unknown), None);
    }

    #[test]
    fn a_node_that_listens_everywhere_is_where_the_others_see_it() {
        let at = |listen, way| place(Some(listen), &[], way).map(|(_, reached)| reached.unwrap());
        assert_eq!(at("0.0.0.0:1", from("10.0.0.2")), "10.0.0.2".parse().ok());
        assert_eq!(at("[::]:1", from("10.0.0.2")), "10.0.0.2".parse().ok());
        assert_eq!(at("[::]:1", from("2001:db8::2")), "2001:db8::2".parse().ok());
        // It does not listen there.
        assert_eq!(at("0.0.0.0:1", from("2001:db8::2")), None);
        assert_eq!(at("0.0.0.0:1", Way::Nowhere), None);
        assert_eq!(at("0.0.0.0:1", Way::Unknown), None);
        let told = place(Some("0.0.0.0:1"), &["second.example:1"], from("10.0.0.2"));
        assert_eq!(told, Some(("0.0.0.0:1".to_owned(), None)), "it was said where it is");
    }

    #[test]
    fn loopback_addresses_are_known_as_such() {
        for here in [LOOPBACK, "127.8.8.8:1", "[::1]:7181", "localhost:7181"] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in ["10.0.0.2:7181", "[2001:db8::2]:1", "second.example:7181"] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}
