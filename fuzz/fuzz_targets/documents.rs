//! What `claims/documents.rs` says, of whatever the fuzzer comes up with.

#![no_main]

#[path = "../claims/documents.rs"]
mod claims;
#[path = "../limits.rs"]
mod limits;

/// Bytes that any document may take: the compiled schema of the language is most of them.
const MEMORY: usize = 64 << 20;
/// The same, for each byte of the input.
const MEMORY_PER_BYTE: usize = 16 << 10;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    limits::within(MEMORY + data.len() * MEMORY_PER_BYTE, || claims::hold(data));
});
