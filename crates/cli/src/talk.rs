//! Talk: what is said to people beside the data that was asked for.

/// Writes a line to stderr. If nobody listens there any more, that is no reason to fail.
macro_rules! tell {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        // There is nobody to tell that there is nobody to tell.
        _ = writeln!(std::io::stderr(), $($said)*);
    }};
}
