//! Durations: ISO 8601 text (`PT1M30S`) or an object (`{ minutes: 1, seconds: 30 }`).

/// What is wrong with the text of a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It is not ISO 8601.
    Malformed,
    /// It has years or months, whose length depends on the calendar.
    Calendar,
}

/// The keys of a duration object.
pub(super) const UNITS: [&str; 5] = ["days", "hours", "minutes", "seconds", "milliseconds"];

/// Checks an ISO 8601 duration. Fractions are allowed in every part, as the official schema does.
pub(super) fn check(text: &str) -> Result<(), Fault> {
    let rest = text.strip_prefix('P').ok_or(Fault::Malformed)?;
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return Err(Fault::Malformed),
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return Err(Fault::Malformed);
    }
    let date_units = parts(date, "YMWD")?;
    parts(time, "HMS")?;
    match date_units.contains(['Y', 'M']) {
        true => Err(Fault::Calendar),
        false => Ok(()),
    }
}

/// The units used, each at most once and in order.
fn parts(text: &str, units: &str) -> Result<String, Fault> {
    let mut used = String::new();
    let mut left = units;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let end = end.ok_or(Fault::Malformed)?;
        let (number, tail) = rest.split_at(end);
        let unit = tail.chars().next().ok_or(Fault::Malformed)?;
        let at = left.find(unit).ok_or(Fault::Malformed)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(Fault::Malformed);
        }
        used.push(unit);
        left = &left[at + 1..];
        rest = &tail[1..];
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::{Fault, check};

    #[test]
    fn accepts_days_and_smaller_units_in_order() {
        for text in ["PT30S", "PT0.5S", "P1DT12H", "P2W", "PT1H30M5.25S", "P1D"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn rejects_what_is_not_iso_8601() {
        for text in ["", "P", "PT", "30s", "PT5", "P1S", "PT1S1M", "PT1H1H", "PT1..5S", "P-1D"] {
            assert_eq!(check(text), Err(Fault::Malformed), "{text}");
        }
    }

    #[test]
    fn tells_months_from_minutes() {
        assert_eq!(check("P1M"), Err(Fault::Calendar));
        assert_eq!(check("P1Y"), Err(Fault::Calendar));
        assert_eq!(check("PT1M"), Ok(()));
    }
}
