//! Which addresses calls may reach: what keeps a workflow from being turned against its own network.
//!
//! The policy looks at the address a connection would be made to, never at how it was written: names
//! are resolved first, and addresses that carry another one inside (mapped, translated, 6to4) count as
//! the one inside.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Which addresses calls may reach. A denied address stays denied whatever else is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPolicy {
    /// This machine itself.
    pub allow_loopback: bool,
    /// Networks that are not reachable from outside, such as 10.0.0.0/8.
    pub allow_private: bool,
    /// The neighbours on the wire, such as the metadata services of clouds.
    pub allow_link_local: bool,
    /// Exceptions that may be reached.
    pub allow: Vec<Rule>,
    /// Never reached.
    pub deny: Vec<Rule>,
}

impl Default for AddressPolicy {
    /// The world and this machine, but not the network around it.
    fn default() -> Self {
        Self {
            allow_loopback: true,
            allow_private: false,
            allow_link_local: false,
            allow: Vec::new(),
            deny: Vec::new(),
        }
    }
}

/// A network or a host in a list of exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All addresses with the same first bits.
    Network {
        /// Any address of the network.
        address: IpAddr,
        /// How many bits count.
        prefix: u8,
    },
    /// A host name; `*.example.org` is every name below it.
    Host(String),
}

/// The text is neither a network nor a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a network such as 10.1.0.0/16 nor a host name such as *.example.org")]
pub struct RuleError(pub String);

/// An address that may not be reached, and the setting that would change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Denied {
    /// The host as the URI has it.
    pub host: String,
    /// The address it leads to, if it was looked at.
    pub address: Option<IpAddr>,
    /// Why.
    pub class: Class,
}

/// What kind of address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reachable from anywhere.
    Public,
    /// This machine.
    Loopback,
    /// A network of its own.
    Private,
    /// The wire it is on.
    LinkLocal,
    /// Not an address of one machine, or none that can be called.
    Reserved,
    /// In the list of what is never reached.
    Listed,
}

impl AddressPolicy {
    /// Checks the host of a URI before it is resolved: addresses in full, names by the lists.
    pub fn check_host(&self, host: &str) -> Result<(), Denied> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse() {
            return self.check(host, address);
        }
        if self.deny.iter().any(|rule| rule.names(host)) {
            return Err(Denied { host: host.to_owned(), address: None, class: Class::Listed });
        }
        Ok(())
    }

    /// Checks an address that a host leads to.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        let address = innermost(address);
        let denied = |class| Denied { host: host.to_owned(), address: Some(address), class };
        let listed =
            |rules: &[Rule]| rules.iter().any(|rule| rule.covers(address) || rule.names(host));
        if listed(&self.deny) {
            return Err(denied(Class::Listed));
        }
        let class = classify(address);
        let allowed = match class {
            Class::Public => true,
            Class::Loopback => self.allow_loopback,
            Class::Private => self.allow_private,
            Class::LinkLocal => self.allow_link_local,
            Class::Reserved | Class::Listed => false,
        };
        if allowed || listed(&self.allow) { Ok(()) } else { Err(denied(class)) }
    }
}

impl Rule {
    fn covers(&self, address: IpAddr) -> bool {
        match self {
            Self::Network { address: network, prefix } => {
                same_network(innermost(*network), address, *prefix)
            }
            Self::Host(_) => false,
        }
    }

    fn names(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match self {
            Self::Network { .. } => false,
            Self::Host(name) => match name.strip_prefix("*.") {
                Some(parent) => host.strip_suffix(parent).is_some_and(|below| below.ends_with('.')),
                None => host == *name,
            },
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let error = || RuleError(text.to_owned());
        if let Some((address, prefix)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| error())?;
            let prefix: u8 = prefix.parse().map_err(|_| error())?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            return if prefix <= bits {
                Ok(Self::Network { address, prefix })
            } else {
                Err(error())
            };
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            let prefix = if address.is_ipv4() { 32 } else { 128 };
            return Ok(Self::Network { address, prefix });
        }
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let plain = name.strip_prefix("*.").unwrap_or(&name);
        let usable = !plain.is_empty()
            && plain.chars().all(|character| {
                character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_')
            });
        if usable { Ok(Self::Host(name)) } else { Err(error()) }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`", self.host)?;
        if let Some(address) = self.address {
            write!(formatter, " leads to {address}, which")?;
        }
        let (what, or_else) = match self.class {
            Class::Public => ("is public", ""),
            Class::Loopback => ("is this machine", ""),
            Class::Private => ("is in a private network", "`--allow-private` or "),
            Class::LinkLocal => ("is link-local", ""),
            Class::Reserved => ("is no address of a single machine", ""),
            Class::Listed => return write!(formatter, " is in the list of `--deny`"),
        };
        write!(formatter, " {what}; calls to it need {or_else}`--allow ")?;
        match self.address {
            Some(address) => write!(formatter, "{address}`"),
            None => write!(formatter, "{}`", self.host),
        }
    }
}

fn classify(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [127, ..] => Class::Loopback,
        [10, ..] | [192, 168, ..] => Class::Private,
        [172, second, ..] if (16..32).contains(&second) => Class::Private,
        // Shared by the customers of a provider: as private as the others.
        [100, second, ..] if (64..128).contains(&second) => Class::Private,
        [169, 254, ..] => Class::LinkLocal,
        // "This network" reaches the machine itself on many systems.
        [0, ..] => Class::Reserved,
        [192, 0, 0, _] | [198, 18 | 19, ..] => Class::Reserved,
        [first, ..] if 224 <= first => Class::Reserved,
        _ => Class::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> Class {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0, 0, 0, 0, 0, 0, ..] => Class::Reserved,
        // Unique local, and the site-local addresses before them.
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Class::Private,
        [first, ..] if first & 0xffc0 == 0xfe80 => Class::LinkLocal,
        [first, ..] if first & 0xff00 == 0xff00 => Class::Reserved,
        // Teredo carries an address that its relay chooses; discard-only reaches nobody.
        [0x2001, 0, ..] | [0x0100, 0, 0, 0, ..] => Class::Reserved,
        // Local-use translation prefix.
        [0x0064, 0xff9b, 1, ..] => Class::Reserved,
        _ => Class::Public,
    }
}

/// The address that is reached in the end, for those that carry one of the old kind inside.
fn innermost(address: IpAddr) -> IpAddr {
    let IpAddr::V6(outer) = address else { return address };
    let joined = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match outer.segments() {
        // Mapped.
        [0, 0, 0, 0, 0, 0xffff, high, low] => joined(high, low),
        // Compatible (deprecated); `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => joined(high, low),
        // Translated, 6to4.
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => joined(high, low),
        _ => address,
    }
}

fn same_network(network: IpAddr, address: IpAddr, prefix: u8) -> bool {
    let (network, address, bits) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(network.to_bits()), u128::from(address.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let shift = bits - u32::from(prefix);
    // A shift by the whole width is everything.
    network.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> AddressPolicy {
        AddressPolicy { allow_loopback: false, ..AddressPolicy::default() }
    }

    fn class_of(text: &str) -> Class {
        classify(innermost(text.parse().unwrap()))
    }

    #[test]
    fn tells_what_kind_an_address_is() {
        let cases = [
            (
                Class::Loopback,
                ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"],
            ),
            (Class::Private, ["10.0.0.1", "172.31.0.1", "192.168.1.1", "fd00::1", "::ffff:a00:1"]),
            (
                Class::LinkLocal,
                ["169.254.169.254", "fe80::1", "2002:a9fe:a9fe::", "::169.254.1.1", "febf::1"],
            ),
            (Class::Reserved, ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"]),
            (
                Class::Public,
                ["1.1.1.1", "172.32.0.1", "2606:4700::1", "100.128.0.1", "::ffff:8.8.8.8"],
            ),
        ];
        for (class, addresses) in cases {
            for address in addresses {
                assert_eq!(class_of(address), class, "{address}");
            }
        }
    }

    #[test]
    fn by_default_the_world_and_this_machine_may_be_reached_but_not_the_network_around_it() {
        let policy = AddressPolicy::default();
        for host in ["127.0.0.1", "[::1]", "1.1.1.1"] {
            assert_eq!(policy.check_host(host), Ok(()), "{host}");
        }
        for host in ["10.0.0.1", "169.254.169.254", "[fd00::1]", "0.0.0.0", "[::ffff:10.0.0.1]"] {
            assert!(policy.check_host(host).is_err(), "{host}");
        }
    }

    #[test]
    fn a_denial_names_the_option_that_would_allow_it() {
        let text = closed().check_host("[::ffff:127.0.0.1]").unwrap_err().to_string();
        assert!(text.contains("127.0.0.1"), "{text}");
        assert!(text.contains("`--allow 127.0.0.1`"), "{text}");
        let text = AddressPolicy::default().check_host("10.0.0.1").unwrap_err().to_string();
        assert!(text.contains("`--allow-private` or `--allow 10.0.0.1`"), "{text}");
    }

    #[test]
    fn exceptions_are_networks_and_hosts() {
        let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let policy =
            AddressPolicy { allow: rules(&["10.1.0.0/16", "*.inner.example"]), ..closed() };
        let private = "10.2.0.1".parse().unwrap();
        assert_eq!(policy.check_host("10.1.2.3"), Ok(()));
        assert!(policy.check_host("10.2.0.1").is_err());
        assert_eq!(policy.check("a.inner.example", private), Ok(()));
        assert!(policy.check("inner.example", private).is_err());
        assert!(policy.check("evilinner.example", private).is_err());
    }

    #[test]
    fn what_is_denied_by_a_list_stays_denied() {
        let rules = |text: &str| vec![text.parse::<Rule>().unwrap()];
        let policy =
            AddressPolicy { allow: rules("1.0.0.0/8"), deny: rules("1.1.1.1"), ..closed() };
        assert_eq!(policy.check_host("1.1.1.2"), Ok(()));
        assert!(policy.check_host("1.1.1.1").is_err());
        assert!(policy.check_host("[::ffff:1.1.1.1]").is_err());
        let policy = AddressPolicy { deny: rules("Bad.example"), ..closed() };
        assert!(policy.check_host("bad.example.").is_err());
    }

    #[test]
    fn rejects_rules_that_are_none() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "a b", "*.", "http://x", "::1/129"] {
            assert_eq!(text.parse::<Rule>(), Err(RuleError(text.to_owned())), "{text}");
        }
        assert_eq!(
            "0.0.0.0/0".parse::<Rule>().map(|rule| rule.covers("9.9.9.9".parse().unwrap())),
            Ok(true)
        );
    }
}
