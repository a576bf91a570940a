//! The two text formats of the page: OpenMetrics on request, otherwise Prometheus' older text.

/// A text format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that an `Accept` header asks for: OpenMetrics if it is named with at least the weight of plain text.
    pub fn of(accept: Option<&str>) -> Self {
        let weight = |wanted: &str| {
            let ranges = accept.unwrap_or_default().split(',').map(str::trim);
            let mut found = ranges.filter(|range| range.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted)));
            let quality = |range: &str| range.split(';').find_map(|part| part.trim().strip_prefix("q=")?.trim().parse::<f64>().ok());
            found.next().map(|range| quality(range).unwrap_or(1.0))
        };
        match weight("application/openmetrics-text") {
            Some(wanted) if wanted > 0.0 && wanted >= weight("text/plain").unwrap_or(0.0) => Self::OpenMetrics,
            _ => Self::Text,
        }
    }

    /// Converts an OpenMetrics page to this format.
    pub fn write(self, page: &str) -> String {
        match self {
            Self::Text => as_text(page),
            Self::OpenMetrics => page.to_owned(),
        }
    }

    /// Returns the content type for HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Converts an OpenMetrics page to Prometheus' text: a counter's family is named as its samples are, and there is no end mark.
fn as_text(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let counter = |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
        let named = |line: &str| {
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).map(|(name, help)| (name.to_owned(), help.to_owned()))
        };
        if let Some(name) = counter(line) {
            out.extend(["# TYPE ", &name, "_total counter"]);
        } else if let (Some((name, help)), Some(next)) = (named(line), lines.peek())
            && counter(next).as_ref() == Some(&name)
        {
            out.extend(["# HELP ", &name, "_total ", &help]);
        } else if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" unknown")) {
            out.extend(["# TYPE ", name, " untyped"]);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-OPS-01: plain text when nothing is said, OpenMetrics when it is asked for, as Prometheus asks.
    #[test]
    fn accept_chooses_the_form() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, expected) in [
            (None, Format::Text),
            (Some("*/*"), Format::Text),
            (Some("text/plain;version=0.0.4"), Format::Text),
            (Some("text/plain, application/openmetrics-text;q=0.1"), Format::Text),
            (Some("application/openmetrics-text;q=0"), Format::Text),
            (Some("application/openmetrics-text; version=1.0.0"), Format::OpenMetrics),
            (Some(prometheus), Format::OpenMetrics),
        ] {
            assert_eq!(Format::of(accept), expected, "{accept:?}");
        }
    }

    /// MS-OPS-01: in plain text a counter's type and help stand under the name of its samples.
    #[test]
    fn counters_are_named_as_their_samples() {
        let page = "# HELP a Things.\n# TYPE a counter\na_total{b=\"c\"} 1\n# HELP d Depth.\n# TYPE d gauge\nd 2\n# EOF\n";
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n# HELP d Depth.\n# TYPE d gauge\nd 2\n";
        assert_eq!(as_text(page), text);
    }
}
