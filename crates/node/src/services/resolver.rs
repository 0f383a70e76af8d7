//! Names to addresses, with those left out that may not be reached.
//!
//! The client connects to what this returns and to nothing else, so a name that answers differently
//! the second time gains nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{AddressPolicy, Denied};

/// Resolves by the table first, then by the system.
pub(super) struct Resolver {
    policy: Arc<AddressPolicy>,
    hosts: Arc<BTreeMap<String, Vec<IpAddr>>>,
}

impl Resolver {
    pub(super) fn new(policy: Arc<AddressPolicy>, hosts: BTreeMap<String, Vec<IpAddr>>) -> Self {
        Self { policy, hosts: Arc::new(hosts) }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.policy);
        let hosts = Arc::clone(&self.hosts);
        Box::pin(async move {
            let host = name.as_str();
            let addresses = match hosts.get(host) {
                Some(known) => known.iter().map(|address| SocketAddr::new(*address, 0)).collect(),
                None => tokio::net::lookup_host((host, 0)).await?.collect(),
            };
            let allowed = allowed(&policy, host, addresses)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn allowed(
    policy: &AddressPolicy,
    host: &str,
    addresses: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, Denied> {
    let mut allowed = Vec::with_capacity(addresses.len());
    let mut denied = None;
    for address in addresses {
        match policy.check(host, address.ip()) {
            Ok(()) => allowed.push(address),
            Err(reason) => denied = Some(reason),
        }
    }
    match denied {
        Some(reason) if allowed.is_empty() => Err(reason),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_addresses_that_may_be_reached() {
        let policy = AddressPolicy::default();
        let addresses = ["1.1.1.1:0", "10.0.0.1:0"].map(|text| text.parse().unwrap());
        assert_eq!(allowed(&policy, "x", addresses.to_vec()), Ok(vec![addresses[0]]));
    }

    #[test]
    fn a_name_that_leads_to_denied_addresses_only_is_denied() {
        let policy = AddressPolicy::default();
        let address = "10.0.0.1:0".parse().unwrap();
        assert!(allowed(&policy, "x", vec![address]).is_err());
    }
}
