//! Where nodes are: `host:port`, looked up whenever it is dialled.

/// How many addresses a node may have.
const ADDRESSES_MAX: usize = 8;
/// A host name has at most 253 characters; then there is a colon and a port.
const LENGTH_MAX: usize = 253 + 6;

/// The addresses, if every one of them can be dialled and there are not too many.
pub(crate) fn checked_addresses(addresses: Vec<String>) -> Option<Vec<String>> {
    let good = addresses.len() <= ADDRESSES_MAX && addresses.iter().all(|it| is_address(it));
    good.then_some(addresses)
}

/// Whether a text is `host:port`, with a host that is a name or an address.
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0);
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let fits =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !host.is_empty() && host.bytes().all(fits)
        }
    };
    text.len() <= LENGTH_MAX && port && host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:7181", "node-1.example.org:7181", "[::1]:1", "localhost:65535"] {
            assert!(is_address(good), "{good}");
        }
        for bad in
            ["", "host", ":1", "host:", "host:0", "host:65536", "host:+1", "::1:7181", "a b:1"]
        {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(!is_address(&format!("{}:1", "a".repeat(260))));
    }

    #[test]
    fn nobody_has_a_hundred_addresses() {
        assert!(checked_addresses(vec!["host:1".into(); ADDRESSES_MAX]).is_some());
        assert!(checked_addresses(vec!["host:1".into(); 100]).is_none());
    }
}
