//! One node's whole behaviour, without IO: step(now, input) gives outputs.
