//! A limit on the memory that one input may take: over it an allocation fails, which the fuzzer
//! reports as a crash. Time and stack are limited by `run`.

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Does some work with at most so many bytes more than are taken now.
pub(crate) fn within(bytes: usize, work: impl FnOnce()) {
    let limit = ALLOCATOR.allocated().saturating_add(bytes);
    ALLOCATOR.set_limit(limit).expect("it is more than is taken");
    work();
    ALLOCATOR.set_limit(usize::MAX).expect("it is more than is taken");
}
