//! What `claims/journal.rs` says, of whatever the fuzzer comes up with.

#![no_main]

#[path = "../claims/journal.rs"]
mod claims;
#[path = "../limits.rs"]
mod limits;

/// Bytes that any journal may take: both are held in memory, and the writer has its buffers.
const MEMORY: usize = 64 << 20;
/// The same, for each byte of the input.
const MEMORY_PER_BYTE: usize = 4 << 10;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    limits::within(MEMORY + data.len() * MEMORY_PER_BYTE, || claims::hold(data));
});
