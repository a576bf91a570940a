//! The version of Ignition configs that a client asks for by its Accept header, by upstream's rules.

use std::cmp::Ordering;

use mainstay_ignition::{Spec, Version};

/// The media type of Ignition configs, without its first part: upstream does not look at that.
const IGNITION: &str = "vnd.coreos.ignition+json";
/// The version of clients that ask for none, as a browser and curl do.
const UNSAID: Spec = Spec::V2_2;
/// Versions by the lowest request that gets them, newest first; the first two bounds are ends without a version of their own.
const BOUNDS: [([i64; 3], Option<Spec>); 8] = [
    ([4, 0, 0], None),
    ([3, 5, 0], Some(Spec::V3_5)),
    ([3, 4, 0], Some(Spec::V3_4)),
    ([3, 3, 0], Some(Spec::V3_3)),
    ([3, 2, 0], Some(Spec::V3_2)),
    ([3, 1, 0], Some(Spec::V3_1)),
    ([3, 0, 0], None),
    ([2, 2, 0], Some(Spec::V2_2)),
];

/// A header that asks for versions that are not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported Ignition version in Accept header: {0}")]
pub struct UnsupportedVersion(pub String);

/// A range of the header.
struct Range {
    is_ignition: bool,
    version: Option<Version>,
    quality: f32,
}

/// Returns the version for a header; absent is the same as empty.
///
/// # Errors
/// Every version that the header names is unknown.
pub fn version_for(accept: &str) -> Result<Spec, UnsupportedVersion> {
    let mut ranges: Vec<Range> = accept.split(',').filter_map(range).collect();
    ranges.sort_by(|one, other| other.quality.partial_cmp(&one.quality).unwrap_or(Ordering::Equal));
    let mut asked = ranges.iter().filter(|range| range.is_ignition).filter_map(|range| range.version.as_ref()).peekable();
    if asked.peek().is_none() {
        return Ok(UNSAID);
    }
    asked.find_map(served).ok_or_else(|| UnsupportedVersion(accept.to_owned()))
}

fn range(text: &str) -> Option<Range> {
    let mut parts = text.split(';').map(str::trim);
    let (_, subtype) = parts.next()?.split_once('/')?;
    let (mut version, mut quality) = (None, None);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "version" if version.is_none() => version = Version::parse(value),
            "q" if quality.is_none() => quality = quality_of(value),
            _ => {}
        }
    }
    Some(Range { is_ignition: subtype == IGNITION, version, quality: quality.unwrap_or(1.0) })
}

/// A quality that can be compared; upstream's reader refuses what is too large for it.
fn quality_of(text: &str) -> Option<f32> {
    text.parse::<f32>().ok().filter(|quality| quality.is_finite())
}

fn served(version: &Version) -> Option<Spec> {
    BOUNDS.iter().find(|(bound, _)| is_at_least(version, *bound)).and_then(|(_, spec)| *spec)
}

/// A pre-release comes before its release.
fn is_at_least(version: &Version, bound: [i64; 3]) -> bool {
    version.numbers > bound || (version.numbers == bound && version.pre_release.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// MACH-MCS-01: versions by the header, highest quality first; requests between and above known versions get the newest below.
    #[test]
    fn versions_by_header() {
        const OF_0: &str =
            "application/vnd.coreos.ignition+json; version=2.4.0, application/vnd.coreos.ignition+json; version=1; q=0.5, */*; q=0.1";
        let cases = [
            ("", Some(Spec::V2_2)),
            ("*/*", Some(Spec::V2_2)),
            ("text/html, application/json;version=3.2.0", Some(Spec::V2_2)),
            ("application/vnd.coreos.ignition+json", Some(Spec::V2_2)),
            (OF_0, Some(Spec::V2_2)),
            ("application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1", Some(Spec::V3_2)),
            ("application/vnd.coreos.ignition+json;version=3.2.7", Some(Spec::V3_2)),
            ("application/vnd.coreos.ignition+json;version=3.99.0", Some(Spec::V3_5)),
            ("application/vnd.coreos.ignition+json;version=3.4.0-experimental", Some(Spec::V3_3)),
            ("application/vnd.coreos.ignition+json;version=3.0.0", None),
            ("application/vnd.coreos.ignition+json;version=4.0.0", None),
            ("application/vnd.coreos.ignition+json;version=2.1.0", None),
            ("application/vnd.coreos.ignition+json;version=1", Some(Spec::V2_2)),
            (
                "application/vnd.coreos.ignition+json;version=4.0.0, application/vnd.coreos.ignition+json;q=0.5;version=3.1.0",
                Some(Spec::V3_1),
            ),
            (
                "application/vnd.coreos.ignition+json;version=3.1.0;q=0.3, application/vnd.coreos.ignition+json;version=3.3.0;q=0.9",
                Some(Spec::V3_3),
            ),
            ("x/vnd.coreos.ignition+json;version=3.1.0;q=nan, a/vnd.coreos.ignition+json;version=3.2.0", Some(Spec::V3_1)),
            ("no type, , ;;;==", Some(Spec::V2_2)),
        ];
        for (header, wanted) in cases {
            assert_eq!(version_for(header).ok(), wanted, "{header}");
        }
    }
}
