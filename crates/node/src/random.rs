//! Random bytes from the operating system: the one place that draws them.

use std::sync::OnceLock;

use rustls::crypto::{CryptoProvider, ring};

/// Random bytes, fit for secrets.
pub fn bytes<const N: usize>() -> [u8; N] {
    static PROVIDER: OnceLock<CryptoProvider> = OnceLock::new();
    let provider = PROVIDER.get_or_init(ring::default_provider);
    let mut bytes = [0; N];
    provider.secure_random.fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_draws_are_alike() {
        assert_ne!(super::bytes::<16>(), super::bytes::<16>());
    }
}
