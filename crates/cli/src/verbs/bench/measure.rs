//! Clocks and gauges: processor time, resident memory, quantiles.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time this process has used so far, all threads together.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("processor time is not negative");
    Duration::new(seconds, u32::try_from(time.tv_nsec).expect("less than a second"))
}

/// The processor time another process has used so far; nothing if it cannot be read.
pub(super) fn cpu_time_of(process: u32) -> Option<Duration> {
    // One file per thread, each beginning with the nanoseconds the thread ran.
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut nanoseconds = 0;
    for thread in threads {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

/// The resident memory of a process (`self` or its number) in megabytes; nothing where the system
/// does not tell.
pub(super) fn resident_megabytes(process: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1000.0)
}

/// The value that this share of a sorted list does not exceed, in milliseconds.
pub(super) fn quantile_ms(sorted: &[Duration], share: f64) -> f64 {
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(0.0, |value| value.as_secs_f64() * 1000.0)
}

/// A gauge for people; a dash where there is none.
pub(super) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members_of_the_list() {
        let list: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile_ms(&list, 0.5), 51.0);
        assert_eq!(quantile_ms(&list, 0.99), 100.0);
        assert_eq!(quantile_ms(&list, 1.0), 100.0);
        assert_eq!(quantile_ms(&[], 0.5), 0.0);
    }

    #[test]
    fn work_costs_processor_time() {
        let before = cpu_time();
        let sum = (0..3_000_000_u64).fold(0_u64, |sum, number| sum.wrapping_mul(31) ^ number);
        assert!(before < cpu_time(), "{sum}");
    }
}
