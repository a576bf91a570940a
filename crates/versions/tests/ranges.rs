//! Both dialects against tables and against slow, obvious oracles.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_versions::{CatalogRange, ExtensionRange, KubernetesVersion, Version, compare_api_versions};
use proptest::prelude::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// Each row: range, versions inside, versions outside.
type Rows = &'static [(&'static str, &'static [&'static str], &'static [&'static str])];

fn check<R>(rows: Rows, parse: fn(&str) -> Result<R, mainstay_versions::Error>, matches: fn(&R, &Version) -> bool) {
    for (text, inside, outside) in rows {
        let range = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        for candidate in *inside {
            assert!(matches(&range, &version(candidate)), "{text:?} should have {candidate}");
        }
        for candidate in *outside {
            assert!(!matches(&range, &version(candidate)), "{text:?} should not have {candidate}");
        }
    }
}

/// OLM1-UPG-09, OLM1-UPG-10: wildcards, tilde, caret and the edge cases.
#[test]
fn extension_ranges() {
    const ROWS: Rows = &[
        ("1.11.x", &["1.11.0", "1.11.9"], &["1.12.0", "1.10.9", "1.11.1-rc.1"]),
        (">=1.12.X", &["1.12.0", "2.0.0"], &["1.11.9"]),
        ("<=2.x", &["2.9.9", "0.0.1"], &["3.0.0"]),
        ("*", &["0.0.0", "9.9.9"], &["1.0.0-rc.1"]),
        ("~1.11.0", &["1.11.0", "1.11.5"], &["1.12.0"]),
        ("~1", &["1.0.0", "1.9.0"], &["2.0.0", "0.9.0"]),
        ("~>1.12", &["1.12.0"], &["1.13.0"]),
        ("~1.x", &["1.5.0"], &["2.0.0"]),
        ("^0", &["0.0.0", "0.9.9"], &["1.0.0"]),
        ("^0.0", &["0.0.0", "0.0.9"], &["0.1.0"]),
        ("^0.0.3", &["0.0.3"], &["0.0.4", "0.0.2"]),
        ("^0.2", &["0.2.0", "0.2.9"], &["0.3.0"]),
        ("^0.2.3", &["0.2.3"], &["0.2.2", "0.3.0"]),
        ("^1.2.x", &["1.2.0", "1.9.0"], &["2.0.0", "1.1.0"]),
        ("^1.2.3", &["1.2.3", "1.9.0"], &["2.0.0", "1.2.2"]),
        ("^2.3", &["2.3.0", "2.9.0"], &["3.0.0", "2.2.0"]),
        ("1.15.0", &["1.15.0", "1.15.0+build"], &["1.15.1"]),
        ("1.15", &["1.15.0", "1.15.7"], &["1.16.0"]),
        (">1.15, <1.17", &["1.16.0", "1.16.9"], &["1.15.2", "1.17.0"]),
        ("!=1.11.x", &["1.10.0", "1.12.0"], &["1.11.3"]),
        ("!=1.11.0", &["1.11.1", "1.12.0-rc.1"], &["1.11.0"]),
        ("~0.0.0", &["0.0.0", "3.1.4"], &["1.0.0-rc.1"]),
        (">=1.2.0-rc.1", &["1.2.0-rc.1", "1.2.0"], &["1.1.9"]),
        ("^2.0", &["2.1.0"], &["2.1.0-rc1"]),
        ("2.2.0 - 2.2.0", &["2.2.0"], &["2.2.1", "2.1.9"]),
        ("1.0 - 2.0", &["1.0.0", "2.0.5"], &["2.1.0"]),
        ("1.8.1 || 0.0.20", &["1.8.1", "0.0.20"], &["1.8.0"]),
        (">0.27.1 <0.26.1 || 0.26.x", &["0.26.3"], &["0.27.2"]),
        ("v1.8.0", &["1.8.0"], &["1.8.1"]),
        ("=> 1.0.0, =< 1.1.0", &["1.0.0", "1.1.0"], &["1.1.1"]),
    ];
    check(ROWS, ExtensionRange::parse, ExtensionRange::matches);
}

/// OLM1-UPG-10: what cannot be read says so in upstream's words.
#[test]
fn extension_ranges_that_are_none() {
    for (text, problem) in [
        ("invalid", "improper constraint: \"invalid\""),
        ("", "improper constraint: \"\""),
        ("1.0.0 ||", "improper constraint: \"\""),
        ("1.0.0>2", "improper constraint: \"1.0.0>2\""),
        ("1.2.3.4", "improper constraint: \"1.2.3.4\""),
        ("01.0.0", "constraint parser error"),
        ("1|2", "constraint parser error"),
    ] {
        assert_eq!(ExtensionRange::parse(text).unwrap_err().to_string(), problem, "{text:?}");
    }
    assert!(ExtensionRange::parse(&"1.0.0 ".repeat(200)).is_err());
    assert!(ExtensionRange::parse(&"1||".repeat(40)).is_err());
}

/// OLM0-RES-08, OLM1-UPG-07: blanks, bars, wildcards, pre-releases like any version.
#[test]
fn catalog_ranges() {
    const ROWS: Rows = &[
        (">=1.0.0 <2.0.0", &["1.0.0", "1.3.0-rc1", "2.0.0-rc.1"], &["2.0.0", "1.0.0-rc.1"]),
        ("> 1.0.0 !1.2.1", &["1.2.0"], &["1.0.0", "1.2.1"]),
        ("<1.0.0 || >=2.0.0 !=2.1.0", &["0.9.0", "2.0.0"], &["1.0.0", "2.1.0"]),
        ("1.2.x", &["1.2.0", "1.2.9"], &["1.3.0", "1.1.9"]),
        ("1.x", &["1.0.0", "1.9.0"], &["2.0.0"]),
        ("1.x.x", &["1.0.0"], &["2.0.0"]),
        (">1.2.x", &["1.3.0"], &["1.2.9"]),
        ("<=1.2.x", &["1.2.9"], &["1.3.0"]),
        ("==1.2.3", &["1.2.3", "1.2.3+b"], &["1.2.4"]),
        (">=   1.0.0   <2.0.0", &["1.0.0"], &["2.0.0"]),
    ];
    check(ROWS, CatalogRange::parse, CatalogRange::matches);
}

/// OLM0-RES-30: ends inside of a major version; none, and a new major version, leave room for updates.
#[test]
fn narrow_ends() {
    for (range, end) in [
        (">=1.0.0", None),
        (">1.0.0 <2.0.0", None),
        ("<2.0.0-0", None),
        ("1.x", None),
        ("> 1.0.0 !1.2.1", None),
        (">=1.0.0 <1.5.0 || >=1.6.0", None),
        (">=1.0.0 <1.5.0 || >=1.6.0 <2.0.0", None),
        ("1.2.3", Some("1.2.3")),
        (">=1.0.0 <1.5.0", Some("1.5.0")),
        (">=1.0.0 <=2.0.0", Some("2.0.0")),
        (">=1.0.0 <1.0.1 || >=1.6.0 <1.7.0", Some("1.7.0")),
        ("1.2.x", Some("1.3.0")),
        ("<1.5.0 <3.0.0", Some("1.5.0")),
        ("<2.0.0 || <=2.0.0", Some("2.0.0")),
    ] {
        let parsed = CatalogRange::parse(range).unwrap();
        assert_eq!(parsed.narrow_end().map(ToString::to_string).as_deref(), end, "{range}");
    }
}

/// CATLG-24: the reasons that `opm validate` prints for a skip range.
#[test]
fn catalog_ranges_that_are_none() {
    for (text, problem) in [
        ("^1.0.0", "Could not parse Range \"^1.0.0\": Could not parse comparator \"^\" in \"^1.0.0\""),
        (">=1.0", "Could not parse Range \">=1.0\": Could not parse version \"1.0\" in \">=1.0\": No Major.Minor.Patch elements found"),
        ("<v1.0.0", "Could not parse Range \"<v1.0.0\": Could not parse comparator \"<v\" in \"<v1.0.0\""),
        ("|| 1.0.0", "First element in range is '||'"),
        ("1.0.0 ||", "Last element in range is '||'"),
        ("", "Last element in range is '||'"),
        ("abc", "Could not get version from string: \"abc\""),
        ("1.0.0-rcx", "Could not get version from string: \"<\""),
    ] {
        assert_eq!(CatalogRange::parse(text).unwrap_err().to_string(), problem, "{text:?}");
    }
    assert!(CatalogRange::parse("1.0.0 || || 2.0.0").is_err());
    assert!(CatalogRange::parse(&"1.0.0 ".repeat(2000)).is_err());
}

#[test]
fn versions_are_strict() {
    for (text, problem) in [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", "Invalid character(s) found in major number \"v1\""),
        ("1.02.3", "Minor number must not contain leading zeroes \"02\""),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
        ("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\""),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3.4", "Invalid character(s) found in patch number \"3.4\""),
        ("99999999999999999999.0.0", "strconv.ParseUint: parsing \"99999999999999999999\": value out of range"),
    ] {
        assert_eq!(Version::parse(text).unwrap_err().to_string(), problem, "{text:?}");
    }
    let mut all: Vec<Version> = ["1.0.0+b", "1.0.0", "1.0.0-rc.10", "1.0.0-rc.9", "1.0.0-alpha", "1.0.0+a", "0.9.9"].map(version).into();
    all.sort();
    let sorted: Vec<String> = all.iter().map(Version::to_string).collect();
    assert_eq!(sorted, ["0.9.9", "1.0.0-alpha", "1.0.0-rc.9", "1.0.0-rc.10", "1.0.0", "1.0.0+a", "1.0.0+b"]);
}

#[test]
fn api_versions_in_order_of_preference() {
    let expected = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
    let mut names = expected;
    names.sort_unstable();
    names.sort_by(|left, right| compare_api_versions(left, right));
    assert_eq!(names, expected);
}

#[test]
fn clusters_meet_minimum_versions() {
    let read = |text: &str| KubernetesVersion::parse(text).unwrap();
    for (server, minimum, enough) in [
        ("v1.34.2", "1.34.2", true),
        ("v1.34.2", "1.35.0", false),
        ("v1.31.4+k3s1", "1.31", true),
        ("1.34", "1.33.9", true),
        ("v1.34.0-rc.1", "1.34.0", false),
    ] {
        assert_eq!(read(server).is_at_least(&read(minimum)), enough, "{server} {minimum}");
    }
    assert_eq!(read("v1.34.2").minor(), (1, 34));
    assert_eq!(
        KubernetesVersion::parse("latest").unwrap_err().to_string(),
        "\"latest\" is no Kubernetes version: No Major.Minor.Patch elements found"
    );
}

fn some_version() -> impl Strategy<Value = Version> {
    (0..4_u64, 0..4_u64, 0..4_u64, prop_oneof![3 => Just(""), 1 => Just("-rc.1"), 1 => Just("-2")])
        .prop_map(|(major, minor, patch, pre)| version(&format!("{major}.{minor}.{patch}{pre}")))
}

proptest! {
    #[test]
    fn versions_print_as_they_were_read(text in "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}(-[a-z0-9.-]{1,6})?(\\+[a-z0-9.-]{1,6})?") {
        if let Ok(version) = Version::parse(&text) {
            prop_assert_eq!(version.to_string(), text);
        }
    }

    /// A caret lies between its bound and the next version that may break.
    #[test]
    fn carets_are_intervals(bound in some_version(), candidate in some_version()) {
        prop_assume!(!bound.is_prerelease() && !candidate.is_prerelease());
        let end = match (bound.major(), bound.minor()) {
            (0, 0) => Version::new(0, 0, bound.patch() + 1),
            (0, minor) => Version::new(0, minor + 1, 0),
            (major, _) => Version::new(major + 1, 0, 0),
        };
        let expected = candidate >= bound && candidate < end;
        prop_assert_eq!(ExtensionRange::parse(&format!("^{bound}")).unwrap().matches(&candidate), expected);
    }

    /// "And" and "or" are what they say, in both dialects.
    #[test]
    fn groups_are_logic(low in some_version(), high in some_version(), other in some_version(), candidate in some_version()) {
        let order = |bound: &Version| candidate.cmp_precedence(bound);
        let expected = order(&low).is_ge() && order(&high).is_lt() || order(&other).is_eq();
        let text = format!(">={low} <{high} || ={other}");
        prop_assert_eq!(CatalogRange::parse(&text).unwrap().matches(&candidate), expected);
        if !candidate.is_prerelease() {
            prop_assert_eq!(ExtensionRange::parse(&text).unwrap().matches(&candidate), expected);
        }
    }

    #[test]
    fn reading_never_panics(text in "[0-9x.*v|<>=!~^ ,+-]{0,24}") {
        let _ = CatalogRange::parse(&text);
        let _ = ExtensionRange::parse(&text);
    }
}
