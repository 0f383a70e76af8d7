//! What `claims/expressions.rs` says, of whatever the fuzzer comes up with.

#![no_main]

#[path = "../claims/expressions.rs"]
mod claims;
#[path = "../limits.rs"]
mod limits;

/// Bytes that any expression may take: jq's whole library is linked with each.
const MEMORY: usize = 32 << 20;
/// The same, for each byte of the input.
const MEMORY_PER_BYTE: usize = 64 << 10;

libfuzzer_sys::fuzz_target!(init: mind_our_own_panics(), |data: &[u8]| {
    limits::within(MEMORY + data.len() * MEMORY_PER_BYTE, || claims::hold(data));
});

/// jaq has corners that panic, and `Filter::evaluate` makes errors of them. The fuzzer would end at
/// every one of them; our own code may not panic even there.
fn mind_our_own_panics() {
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |location| location.file());
        if !file.contains("jaq-") {
            abort(panic);
        }
    }));
}
