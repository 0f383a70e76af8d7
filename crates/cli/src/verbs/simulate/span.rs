//! Times of a simulated world, as people write them: `20ms`, and how they are spread, `1ms..50ms`.

use outlast_simulator::Latency;

/// The units, the largest first, in microseconds.
const UNITS: [(&str, u64); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];
/// The longest time that can be asked for, in microseconds: far more than any node waits for.
const MICROS_MAX: u64 = 10_000_000;
/// The longest that a message may take. Nodes that hear of each other later take each other for lost,
/// elections do not end, and that would say nothing of the engine.
const MESSAGE_MICROS_MAX: u64 = 500_000;
/// How many times the average a message takes at most, where there is no end to it: three in ten thousand take
/// longer, and nobody is missed before several in a row do.
const TAIL: u64 = 8;

/// How long a message takes.
pub(super) fn message_latency(text: &str) -> Result<Latency, String> {
    let latency = latency(text)?;
    let long = match latency {
        Latency::Constant(micros) | Latency::Uniform(_, micros) => micros,
        Latency::Exponential(least, more) => least + TAIL * more,
    };
    if MESSAGE_MICROS_MAX < long {
        let most = text_of(MESSAGE_MICROS_MAX);
        return Err(format!("nodes take each other for lost if messages take more than {most}"));
    }
    Ok(latency)
}

/// How long something takes: a time, a range, or a least time and how much more it is on average.
pub(super) fn latency(text: &str) -> Result<Latency, String> {
    if let Some((low, high)) = text.split_once("..") {
        let (low, high) = (micros(low)?, micros(high)?);
        if high < low {
            return Err("a range is not upside down".to_owned());
        }
        return Ok(Latency::Uniform(low, high));
    }
    match text.split_once('~') {
        Some((least, more)) => Ok(Latency::Exponential(micros(least)?, micros(more)?)),
        None => Ok(Latency::Constant(micros(text)?)),
    }
}

/// A time in microseconds.
pub(super) fn micros(text: &str) -> Result<u64, String> {
    let wrong = || "expected a time such as 500us, 20ms or 2s".to_owned();
    let digits = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let total = number.checked_mul(*scale).filter(|total| *total <= MICROS_MAX);
    total.ok_or_else(|| format!("no more than {} can be asked for", text_of(MICROS_MAX)))
}

/// A latency as it is asked for.
pub(super) fn latency_text(latency: Latency) -> String {
    match latency {
        Latency::Constant(micros) => text_of(micros),
        Latency::Uniform(low, high) => format!("{}..{}", text_of(low), text_of(high)),
        Latency::Exponential(least, more) => format!("{}~{}", text_of(least), text_of(more)),
    }
}

/// A time as it is asked for.
pub(super) fn text_of(micros: u64) -> String {
    let whole = UNITS.iter().find(|(_, scale)| micros.is_multiple_of(*scale));
    let (unit, scale) = whole.expect("every time is a whole number of microseconds");
    format!("{}{unit}", micros / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_written_as_it_is_read() {
        for (text, latency) in [
            ("20ms", Latency::Constant(20_000)),
            ("0s", Latency::Constant(0)),
            ("500us..2s", Latency::Uniform(500, 2_000_000)),
            ("1ms~50ms", Latency::Exponential(1_000, 50_000)),
        ] {
            assert_eq!(super::latency(text), Ok(latency), "{text}");
            assert_eq!(latency_text(latency), text);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "5", "ms", "5 ms", "-5ms", "5m", "1.5ms", "5ms..", "~5ms", "2s..1s", "1ü"]
        {
            assert!(latency(text).is_err(), "{text}");
        }
        assert_eq!(latency("11s"), Err("no more than 10s can be asked for".to_owned()));
        assert!(micros("99999999999999999999s").is_err());
        for text in ["501ms", "1ms..501ms", "1ms~63ms"] {
            assert!(message_latency(text).is_err() && latency(text).is_ok(), "{text}");
        }
        assert_eq!(message_latency("1ms~62ms"), Ok(Latency::Exponential(1_000, 62_000)));
        assert_eq!(micros("10s"), Ok(10_000_000));
    }
}
