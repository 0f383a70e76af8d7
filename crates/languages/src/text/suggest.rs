//! "Did you mean": the name closest to one that does not exist.

/// How many names are listed when none is close.
const LISTED_MAX: usize = 20;

/// How many names are compared: enough for documents that people write.
const CANDIDATES_MAX: usize = 1_000;

/// How long a name may be to be compared with others: a longer one is no slip of the pen, and
/// comparing costs the product of the lengths.
const NAME_BYTES_MAX: usize = 100;

/// The candidate closest to `name`, if it is close enough to be what was meant.
pub(crate) fn closest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let length = name.chars().count();
    let bound = (length / 3).max(1);
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let wanted = name.to_lowercase();
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        // Every edit changes the length by one at most.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= bound)
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Help for a name that does not exist: the closest one, or else all there are.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(meant) = closest(name, candidates.iter().copied()) {
        return format!("did you mean `{meant}`?");
    }
    match candidates.is_empty() {
        true => otherwise.to_owned(),
        false if candidates.len() > LISTED_MAX => {
            let more = candidates.len() - LISTED_MAX;
            let first: Vec<String> =
                candidates[..LISTED_MAX].iter().map(|name| format!("`{name}`")).collect();
            format!("there is {} and {more} more", first.join(", "))
        }
        false => format!("there is {}", listed(&candidates)),
    }
}

/// Names in a row: `a`, `b` and `c`.
pub(crate) fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// Edits (insert, delete, replace, swap neighbours) between two texts.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let swapped =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if swapped {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}
