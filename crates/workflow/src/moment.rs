//! Durations and points in time as the language writes them.

use std::time::Duration;

use outlast_expressions::{Value, value};
use outlast_lineage::Time;

/// A point in time as ISO 8601 in UTC, to the millisecond.
pub fn iso8601(time: Time) -> String {
    let milliseconds = time.as_millis();
    let (days, rest) = (milliseconds / 86_400_000, milliseconds % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, thousandth) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{thousandth:03}Z")
}

/// Year, month and day of a day since 1970, by the Gregorian calendar.
///
/// Counts in eras of 400 years that begin on the first of March, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Reads a duration: ISO 8601 text, or an object of days, hours, minutes, seconds, milliseconds.
pub fn duration(given: &Value) -> Result<Duration, String> {
    match given {
        Value::Obj(_) => duration_of_object(given),
        _ => match value::as_str(given) {
            Some(text) => duration_of_text(text),
            None => Err(format!("`{}` is not a duration", value::to_text(given))),
        },
    }
}

fn duration_of_object(given: &Value) -> Result<Duration, String> {
    let mut seconds = 0.0;
    for (unit, amount) in value::members(given) {
        let scale = match unit {
            "days" => 86_400.0,
            "hours" => 3600.0,
            "minutes" => 60.0,
            "seconds" => 1.0,
            "milliseconds" => 0.001,
            _ => return Err(format!("`{unit}` is not a unit of durations")),
        };
        let amount = value::as_f64(amount).ok_or_else(|| format!("`{unit}` must be a number"))?;
        seconds += amount * scale;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| "the duration is negative or too long".into())
}

/// Reads an ISO 8601 duration. Years and months have no fixed length and are refused.
pub fn duration_of_text(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not an ISO 8601 duration such as PT1.5S, PT10M or P2DT3H");
    let body = text.strip_prefix('P').ok_or_else(wrong)?;
    let (date, time) = body.split_once('T').map_or((body, None), |(d, t)| (d, Some(t)));
    if date.is_empty() && time.is_none_or(str::is_empty) {
        return Err(wrong());
    }
    if date.contains(['Y', 'M']) {
        return Err(format!("`{text}` has years or months, whose length is not fixed: use days"));
    }
    let mut seconds = part_sum(date, &[('W', 604_800.0), ('D', 86_400.0)]).ok_or_else(wrong)?;
    if let Some(time) = time {
        let units = [('H', 3600.0), ('M', 60.0), ('S', 1.0)];
        seconds += part_sum(time, &units).ok_or_else(wrong)?;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Sums numbers followed by units that must come in order.
fn part_sum(text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    for (unit, scale) in units {
        if let Some(end) = rest.find(*unit) {
            let number = &rest[..end];
            let digits = number.chars().all(|c| c.is_ascii_digit() || c == '.');
            if number.is_empty() || !digits {
                return None;
            }
            sum += number.parse::<f64>().ok()? * scale;
            rest = &rest[end + 1..];
        }
    }
    rest.is_empty().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(iso8601(Time::from_millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(Time::from_millis(951_782_400_123)), "2000-02-29T00:00:00.123Z");
        assert_eq!(iso8601(Time::from_millis(1_794_700_799_999)), "2026-11-14T23:59:59.999Z");
    }

    #[test]
    fn durations_are_read_in_both_forms() {
        let text = |text| duration_of_text(text).map(|d| d.as_millis());
        assert_eq!(text("PT0.5S"), Ok(500));
        assert_eq!(text("P1DT2H3M4S"), Ok(93_784_000));
        assert_eq!(text("P2W"), Ok(1_209_600_000));
        for wrong in ["", "P", "PT", "1S", "PT1", "PT-1S", "P1M", "P1Y", "PTS", "PT1S2M"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        let object =
            value::object([("minutes", value::integer(1)), ("milliseconds", value::integer(5))]);
        assert_eq!(duration(&object), Ok(Duration::from_millis(60_005)));
    }
}
