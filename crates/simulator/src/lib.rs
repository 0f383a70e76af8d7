//! A virtual world for production engines: clock, disk, services with a ledger, faults, checkers.
