//! The way from this machine to the other members of a cluster: which of its own addresses they see.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use outlast_lineage::NodeId;
use tokio::net::lookup_host;

use super::ClusterError;
use super::folder::Folder;
use super::members::Members;

/// How long the names of members may take to be looked up, all together.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// How a node gets to the others of its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// There are no others, as far as it knows.
    Nowhere,
    /// There are some, but this machine knows no way to them.
    Unknown,
    /// From this address of this machine: a loopback address if all of them are there.
    From(IpAddr),
}

/// How the node of a data directory gets to the other members that it has heard of. Nobody is asked but
/// whoever knows names, so it does not matter whether the members are up.
pub async fn way_to_others(directory: &Path, node: NodeId) -> Result<Way, ClusterError> {
    let members = Members::open(&Folder::of(directory))?;
    let others = members.iter().filter(|(member, _)| *member != node);
    let addresses: Vec<String> = others.flat_map(|(_, member)| member.addresses.clone()).collect();
    let mut way = if addresses.is_empty() { Way::Nowhere } else { Way::Unknown };
    // What was found until then counts.
    let _ = tokio::time::timeout(LOOKUP_MAX, look_up(addresses, &mut way)).await;
    Ok(way)
}

/// Looks until there is a way that leaves this machine.
async fn look_up(addresses: Vec<String>, way: &mut Way) {
    for address in addresses {
        let Ok(places) = lookup_host(address).await else { continue };
        for from in places.filter_map(|place| way_to(place).ok()) {
            *way = Way::From(from);
            if !from.is_loopback() {
                return;
            }
        }
    }
}

/// A socket that is told where datagrams would go knows where they would come from; none is sent.
fn way_to(place: SocketAddr) -> io::Result<IpAddr> {
    let anywhere = match place {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((anywhere, 0))?;
    socket.connect(place)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_on_this_machine_is_reached_within_it() {
        assert_eq!(way_to(SocketAddr::from(([127, 0, 0, 1], 7181))).unwrap(), Ipv4Addr::LOCALHOST);
    }
}
