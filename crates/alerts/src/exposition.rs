//! Prometheus' text format.

use mainstay_promql::{Labels, NAME, Sample};

/// Lines of a page that are read; own pages have a few thousand.
const MAX_LINES: usize = 200_000;

/// A line of a page that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The line is no sample.
    #[error("line {line} is no sample: {text:?}")]
    Sample {
        /// Its number, from 1.
        line: usize,
        /// Its begin.
        text: String,
    },
    /// The page is larger than any page of ours.
    #[error("more than {MAX_LINES} lines")]
    TooLong,
}

/// The samples of a page whose metric is wanted. Times in the page are not read: its samples are of the time of the scrape.
///
/// # Errors
///
/// The first line that is no sample.
pub fn samples_of(page: &str, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Sample>, PageError> {
    let mut samples = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if number >= MAX_LINES {
            return Err(PageError::TooLong);
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = line.split(['{', ' ', '\t']).next().unwrap_or_default();
        if !is_wanted(name) {
            continue;
        }
        let sample = sample(name, &line[name.len()..]);
        samples.push(sample.ok_or_else(|| PageError::Sample { line: number + 1, text: line.chars().take(80).collect() })?);
    }
    Ok(samples)
}

fn sample(name: &str, rest: &str) -> Option<Sample> {
    let mut labels = Labels::from([(NAME.to_owned(), name.to_owned())]);
    let rest = match rest.strip_prefix('{') {
        Some(rest) => pairs(rest, &mut labels)?,
        None => rest,
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { labels, value })
}

/// Reads `a="b",c="d"}` and returns the text behind it.
fn pairs<'a>(mut rest: &'a str, labels: &mut Labels) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(end) = rest.strip_prefix('}') {
            return Some(end);
        }
        let (label, after) = rest.split_once('=')?;
        let mut chars = after.trim_start().strip_prefix('"')?.char_indices();
        let text = after.trim_start().strip_prefix('"')?;
        let mut value = String::new();
        loop {
            match chars.next()? {
                (at, '"') => {
                    rest = &text[at + 1..];
                    break;
                }
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        }
        labels.insert(label.trim().to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// COP-11: names, labels with escapes, values and what is not read.
    #[test]
    fn pages() {
        let page = "# HELP a Things.\n# TYPE a gauge\na 1\na{b=\"c\\\"d\\\\e\\nf\", g=\"h}\"} +Inf 1700000000\n\nother{x} nonsense\nz{} NaN\n# EOF\n";
        let samples = samples_of(page, |name| name != "other").unwrap();
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[0].labels, Labels::from([(NAME.to_owned(), "a".to_owned())]));
        assert_eq!(samples[1].labels["b"], "c\"d\\e\nf");
        assert_eq!(samples[1].labels["g"], "h}");
        assert!(samples[1].value.is_infinite() && samples[2].value.is_nan());
        for bad in ["a", "a{b=\"c\" 1", "a{b=c} 1", "a x", "a{b=\"c\\"] {
            assert_eq!(samples_of(&format!("\n{bad}\n"), |_| true), Err(PageError::Sample { line: 2, text: bad.to_owned() }));
        }
    }
}
