//! What `claims/requests.rs` says, of whatever the fuzzer comes up with.

#![no_main]

#[path = "../claims/requests.rs"]
mod claims;
#[path = "../limits.rs"]
mod limits;

/// Bytes that any request and its answer may take.
const MEMORY: usize = 1 << 20;
/// The same, for each byte of the input.
const MEMORY_PER_BYTE: usize = 4 << 10;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    limits::within(MEMORY + data.len() * MEMORY_PER_BYTE, || claims::hold(data));
});
