//! Small universes, written as text, and what is chosen in them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;

use mainstay_catalog::{
    Bundle, BundleName, Catalog, Channel, ChannelName, Deprecation, Deprecations, Entry, Package, PackageName, Property, Reference,
};
use mainstay_objects::{LabelSelector, SelectorRequirement};
use mainstay_resolver::{
    CandidateCatalog, CatalogState, Change, InstalledBundle, ModelSource, PackageSource, Request, UpgradeConstraintPolicy, resolve,
};
use proptest::prelude::*;
use serde_json::json;

const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

/// A catalog with package `app` from lines such as `1.2.0 @stable @beta replaces=1.1.0 skips=1.0.0,1.0.1 range=">=1.0.0 <1.1.0" deprecated
/// needs=olm.gvk.required`, and `deprecated-channel stable`, `deprecated-package`. Versions stand for bundles `app.v<version>`.
fn universe(text: &str) -> ModelSource {
    let package = PackageName::new("app");
    let name = |version: &str| BundleName::new(format!("app.v{version}"));
    let mut catalog = Catalog {
        packages: vec![Package { name: package.clone(), default_channel: ChannelName::new("stable"), ..Package::default() }],
        ..Catalog::default()
    };
    let mut deprecations = Deprecations { package: package.clone(), entries: Vec::new() };
    let mut deprecate = |schema: &str, name: &str| {
        let reference = Reference { schema: schema.into(), name: name.into() };
        deprecations.entries.push(Deprecation { reference, message: format!("{schema} {name} is old") });
    };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let range = line.split('"').nth(1);
        let words: Vec<&str> = line.split('"').next().unwrap().split_whitespace().collect();
        let after: Vec<&str> = line.rsplit('"').next().unwrap().split_whitespace().collect();
        match words[0] {
            "deprecated-package" => {
                deprecate("olm.package", "");
                continue;
            }
            "deprecated-channel" => {
                deprecate("olm.channel", words[1]);
                continue;
            }
            _ => {}
        }
        let version = words[0];
        let mut bundle =
            Bundle { package: package.clone(), name: name(version), image: format!("q.io/app:{version}"), ..Bundle::default() };
        bundle.properties.push(Property::new("olm.package", &json!({"packageName": "app", "version": version})).unwrap());
        let mut entry = Entry { name: name(version), skip_range: range.map(str::to_owned), ..Entry::default() };
        for word in words.iter().chain(&after) {
            if let Some(replaced) = word.strip_prefix("replaces=") {
                entry.replaces = Some(name(replaced));
            } else if let Some(skipped) = word.strip_prefix("skips=") {
                entry.skips = skipped.split(',').map(name).collect();
            } else if let Some(kind) = word.strip_prefix("needs=") {
                bundle.properties.push(Property::new(kind, &json!({"group": "g", "kind": "K", "version": "v1"})).unwrap());
            } else if *word == "deprecated" {
                deprecate("olm.bundle", name(version).as_str());
            }
        }
        for channel in words.iter().filter_map(|word| word.strip_prefix('@')) {
            match catalog.channels.iter_mut().find(|c| c.name.as_str() == channel) {
                Some(found) => found.entries.push(entry.clone()),
                None => catalog.channels.push(Channel {
                    package: package.clone(),
                    name: ChannelName::new(channel),
                    entries: vec![entry.clone()],
                    properties: Vec::new(),
                }),
            }
        }
        catalog.bundles.push(bundle);
    }
    catalog.deprecations.push(deprecations);
    ModelSource::new(catalog)
}

fn app() -> Request {
    Request { package: "app".into(), ..Request::default() }
}

// Requests take an option, so that is what makes the scenarios readable.
#[allow(clippy::unnecessary_wraps)]
fn installed(version: &str) -> Option<InstalledBundle> {
    Some(InstalledBundle { name: format!("app.v{version}"), version: version.into() })
}

fn name_label(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NAME_LABEL.to_owned(), name.to_owned())])
}

/// Catalogs as `(name, priority, source)`; the answer is `version@catalog` or the error text.
fn answer(request: &Request, catalogs: &[(&str, i32, &ModelSource)]) -> String {
    let labels: Vec<BTreeMap<String, String>> = catalogs.iter().map(|(name, ..)| name_label(name)).collect();
    let candidates: Vec<CandidateCatalog<'_>> = catalogs
        .iter()
        .zip(&labels)
        .map(|((name, priority, source), labels)| CandidateCatalog {
            name,
            labels,
            priority: *priority,
            state: CatalogState::Content(*source),
        })
        .collect();
    match resolve(request, &candidates) {
        Ok(resolution) => format!("{}@{}", resolution.choice.version, resolution.choice.catalog),
        Err(refusal) => refusal.to_string(),
    }
}

fn one(request: &Request, text: &str) -> String {
    answer(request, &[("cat", 0, &universe(text))])
}

/// OLM1-UPG-05, OLM1-UPG-06, OLM1-UPG-07: direct successors only, the highest of them, skipped entries included; staying is allowed.
#[test]
fn successors() {
    let of = |version: &str, text: &str| one(&Request { installed: installed(version), ..app() }, text);
    let documented = "3.0.0 @stable skips=2.0.0\n2.0.0 @stable range=\">=1.0.0 <2.0.0\"\n1.0.0 @old";
    assert_eq!(of("1.0.0", documented), "2.0.0@cat");
    assert_eq!(of("2.0.0", documented), "3.0.0@cat");
    let chain = "1.0.0 @stable\n1.1.0 @stable replaces=1.0.0\n1.2.0 @stable replaces=1.1.0\n1.3.0 @fast replaces=1.1.0";
    assert_eq!(of("1.0.0", chain), "1.1.0@cat");
    assert_eq!(of("1.1.0", chain), "1.3.0@cat", "the highest successor, whatever the channel");
    assert_eq!(of("1.3.0", chain), "1.3.0@cat", "stays");
    assert_eq!(one(&Request { installed: installed("1.1.0"), channels: vec!["stable".into()], ..app() }, chain), "1.2.0@cat");
    let broken_range = "1.0.0 @stable\n2.0.0 @stable range=\"<v2.0.0\"";
    assert_eq!(of("1.0.0", broken_range), "1.0.0@cat", "a range that cannot be read contains nothing");
    assert_eq!(
        of("9.0.0", chain),
        "error upgrading from currently installed version \"9.0.0\": no bundles found for package \"app\"",
        "an installed version that no catalog has is an error"
    );
}

/// OLM1-UPG-05: an installed version outside of the wanted range or channel, with no successor inside, is an error.
#[test]
fn staying_is_filtered_too() {
    let text = "1.0.0 @stable\n2.0.0 @fast replaces=1.0.0";
    let request = Request { installed: installed("1.0.0"), version: Some(">=3".into()), ..app() };
    assert_eq!(
        one(&request, text),
        "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"app\" matching version \">=3\""
    );
    let request = Request { installed: installed("2.0.0"), channels: vec!["stable".into()], ..app() };
    let error = "error upgrading from currently installed version \"2.0.0\": no bundles found for package \"app\" in channels [stable]";
    assert_eq!(one(&request, text), error);
}

/// OLM1-UPG-11, OLM1-UPG-12: without update edges any version may be chosen, also an older one, and majors follow edges otherwise.
#[test]
fn forced_moves() {
    let text = "1.0.0 @stable\n1.1.0 @stable replaces=1.0.0\n2.0.0 @stable replaces=1.1.0";
    let forced = |version: Option<&str>, at: &str| Request {
        installed: installed(at),
        version: version.map(str::to_owned),
        policy: UpgradeConstraintPolicy::SelfCertified,
        ..app()
    };
    assert_eq!(one(&forced(None, "1.0.0"), text), "2.0.0@cat");
    assert_eq!(one(&forced(Some("1.0.0"), "2.0.0"), text), "1.0.0@cat", "rollback");
    let free = Request { installed: installed("1.1.0"), ..app() };
    assert_eq!(one(&free, text), "2.0.0@cat", "an edge to the next major is followed");
    let back = Request { installed: installed("2.0.0"), version: Some("1.0.0".into()), ..app() };
    assert!(one(&back, text).contains("no bundles found"));
}

/// OLM1-SEL-06, OLM1-SEL-12, OLM1-UPG-03, OLM1-UPG-10: not deprecated before newer, higher versions first, pre-releases below releases, and a
/// fixed choice between versions that differ in build metadata.
#[test]
fn order_inside_a_catalog() {
    let deprecated = "1.0.0 @stable\n2.0.0 @stable deprecated\n3.0.0 @stable deprecated";
    assert_eq!(one(&app(), deprecated), "1.0.0@cat");
    assert_eq!(one(&Request { version: Some(">=2".into()), ..app() }, deprecated), "3.0.0@cat", "deprecated is better than nothing");
    assert_eq!(one(&app(), "deprecated-package\ndeprecated-channel fast\n1.0.0 @stable\n2.0.0 @fast"), "2.0.0@cat", "only bundles count");
    assert_eq!(one(&app(), "1.0.0-rc.1 @stable\n0.9.0 @stable"), "1.0.0-rc.1@cat");
    assert_eq!(one(&app(), "1.0.0-rc.1 @stable\n1.0.0 @stable"), "1.0.0@cat");
    assert_eq!(one(&Request { version: Some(">=0.1.0".into()), ..app() }, "1.0.0-rc.1 @stable\n0.9.0 @stable"), "0.9.0@cat");
    for text in ["1.0.0+a @stable\n1.0.0+b @stable", "1.0.0+b @stable\n1.0.0+a @stable"] {
        assert_eq!(one(&app(), text), "1.0.0+b@cat");
    }
}

/// OLM1-SEL-07, OLM1-SEL-08, OLM1-SEL-09, OLM1-SEL-11: deprecation before priority, priority before anything else, a tie is an error.
#[test]
fn across_catalogs() {
    let (old, new, deprecated) = (universe("1.0.0 @stable"), universe("2.0.0 @stable"), universe("3.0.0 @stable deprecated"));
    assert_eq!(answer(&app(), &[("a", 10, &new), ("b", 1000, &old)]), "1.0.0@b");
    assert_eq!(answer(&app(), &[("a", -100, &old), ("b", 0, &new), ("c", 5, &deprecated)]), "2.0.0@b");
    let tie = "found bundles for package \"app\" in multiple catalogs with the same priority [a b]";
    assert_eq!(answer(&app(), &[("b", 0, &new), ("a", 0, &old)]), tie);
    assert_eq!(answer(&app(), &[("b", 0, &new), ("a", 0, &old), ("c", -1, &new)]), tie, "only those of the highest priority tie");
    let wanted =
        Request { version: Some("*".into()), channels: vec!["stable".into(), "beta".into()], installed: installed("1.0.0"), ..app() };
    assert_eq!(
        answer(&Request { policy: UpgradeConstraintPolicy::SelfCertified, ..wanted }, &[("a", 0, &new), ("b", 0, &old)]),
        "error upgrading from currently installed version \"1.0.0\": found bundles for package \"app\" matching version \"*\" in channels [stable beta] in \
         multiple catalogs with the same priority [a b]"
    );
    assert_eq!(answer(&Request { version: Some("2.x".into()), ..app() }, &[("a", 0, &new), ("b", 0, &old)]), "2.0.0@a");
}

/// OLM1-SEL-02, OLM1-SEL-03, OLM1-SEL-05, OLM1-CAT-09: selection of catalogs, and catalogs that cannot answer.
#[test]
fn candidate_catalogs() {
    let (old, new) = (universe("1.0.0 @stable"), universe("2.0.0 @stable"));
    let by_name = Request { selector: Some(LabelSelector::label(NAME_LABEL, "a")), ..app() };
    assert_eq!(answer(&by_name, &[("a", 0, &old), ("b", 9, &new)]), "1.0.0@a");
    let not_in = SelectorRequirement { key: NAME_LABEL.into(), operator: "NotIn".into(), values: vec!["b".into()] };
    let excluded = Request { selector: Some(LabelSelector { match_expressions: vec![not_in], ..LabelSelector::default() }), ..app() };
    assert_eq!(answer(&excluded, &[("a", 0, &old), ("b", 9, &new)]), "1.0.0@a");
    let bad = SelectorRequirement { key: "a".into(), operator: "Near".into(), values: vec![] };
    let bad = Request { selector: Some(LabelSelector { match_expressions: vec![bad], ..LabelSelector::default() }), ..app() };
    assert_eq!(answer(&bad, &[]), "desired catalog selector is invalid: \"Near\" is not a valid label selector operator");
    let labels = [name_label("a"), name_label("b")];
    let with = |request: &Request, state: CatalogState<'_>| {
        let catalogs = [
            CandidateCatalog { name: "b", labels: &labels[1], priority: 0, state },
            CandidateCatalog { name: "a", labels: &labels[0], priority: 0, state: CatalogState::Content(&old) },
        ];
        resolve(request, &catalogs).map(|r| r.choice.catalog).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(with(&app(), CatalogState::Unavailable), Ok("a".to_owned()));
    let not_served = "error walking catalogs: error getting package \"app\" from catalog \"b\": catalog \"b\" is not being served";
    assert_eq!(with(&app(), CatalogState::NotServing), Err(not_served.to_owned()));
    assert_eq!(with(&by_name, CatalogState::NotServing), Ok("a".to_owned()), "a catalog that is not selected does not matter");
    let failed = "error walking catalogs: error getting package \"app\" from catalog \"b\": no route";
    assert_eq!(with(&app(), CatalogState::Failed("no route")), Err(failed.to_owned()));
}

fn broken(last: Option<&ModelSource>) -> CatalogState<'_> {
    CatalogState::Broken { reason: "gone", last: last.map(|last| last as _) }
}

/// MS-EXPL-05, OLM1-SEL-02: a catalog that cannot be asked stops those alone that could use it: where it cannot change the choice it is left
/// out, and the report says so.
#[test]
fn silent_catalogs_stop_whom_they_concern() {
    let (one, deprecated) = (universe("1.0.0 @stable"), universe("1.0.0 @stable deprecated"));
    let empty = || ModelSource::new(Catalog::default());
    let (has, lacks, nothing) = (universe("9.0.0 @stable"), empty(), empty());
    let labels = BTreeMap::new();
    let answer = |content: &ModelSource, priority: i32, state: CatalogState<'_>| {
        let catalogs = [
            CandidateCatalog { name: "good", labels: &labels, priority: 0, state: CatalogState::Content(content) },
            CandidateCatalog { name: "bad", labels: &labels, priority, state },
        ];
        match resolve(&app(), &catalogs) {
            Ok(found) => {
                let left_out = found.catalogs.iter().find(|report| report.catalog == "bad").and_then(|report| report.left_out.clone());
                left_out.unwrap_or_else(|| "not said".to_owned())
            }
            Err(refusal) => refusal.to_string().rsplit(": ").next().unwrap().to_owned(),
        }
    };
    let never = "gone; it is not known to have served anything, and does not go before the others";
    let beaten = "gone; another catalog goes before it";
    for (what, content, priority, state, expected) in [
        ("never served, equal", &one, 0, broken(None), never),
        ("never served, below", &one, -1, broken(None), never),
        ("never served, above", &one, 1, broken(None), "gone"),
        ("never served, nothing elsewhere", &nothing, 0, broken(None), "gone"),
        ("lacks the package, above", &one, 1, broken(Some(&lacks)), "gone; it did not have package app when it last served"),
        ("has the package, equal", &one, 0, broken(Some(&has)), "gone"),
        ("has the package, below", &one, -1, broken(Some(&has)), beaten),
        ("has the package, below, what is chosen is deprecated", &deprecated, -1, broken(Some(&has)), "gone"),
        ("on its way, equal", &one, 0, CatalogState::NotServing, "catalog \"bad\" is not being served"),
        ("on its way, below", &one, -1, CatalogState::NotServing, "catalog \"bad\" is not being served; another catalog goes before it"),
        ("not fetched, equal", &one, 0, CatalogState::Failed("no route"), "no route"),
    ] {
        assert_eq!(answer(content, priority, state), expected, "{what}");
    }
}

/// OLM1-CTRL-05: deprecations of the choice; channels only when they were requested.
#[test]
fn deprecations_of_the_choice() {
    let source = universe("deprecated-package\ndeprecated-channel stable\ndeprecated-channel beta\n1.0.0 @stable @beta deprecated");
    let labels = BTreeMap::new();
    let catalogs = [CandidateCatalog { name: "cat", labels: &labels, priority: 0, state: CatalogState::Content(&source) }];
    let found = resolve(&app(), &catalogs).unwrap().deprecations;
    assert_eq!(found.package.as_deref(), Some("olm.package  is old"));
    assert_eq!(found.bundle.as_deref(), Some("olm.bundle app.v1.0.0 is old"));
    assert!(found.channels.is_empty());
    let found = resolve(&Request { channels: vec!["beta".into()], ..app() }, &catalogs).unwrap().deprecations;
    assert_eq!(found.channels, [("beta".to_owned(), "olm.channel beta is old".to_owned())]);
}

/// OLM1-SEL-10: facts per catalog, and hints that were tried.
#[test]
fn refusals_explain_themselves() {
    let source = universe("1.0.0 @stable\n2.0.0 @stable replaces=1.0.0\n3.0.0 @fast");
    let other = universe("7.0.0 @stable");
    let labels = [name_label("cat"), name_label("other")];
    let catalogs = [
        CandidateCatalog { name: "cat", labels: &labels[0], priority: 0, state: CatalogState::Content(&source) },
        CandidateCatalog { name: "other", labels: &labels[1], priority: 0, state: CatalogState::Content(&other) },
    ];
    let request = Request {
        installed: installed("1.0.0"),
        version: Some("3.x".into()),
        channels: vec!["stable".into()],
        selector: Some(LabelSelector::label(NAME_LABEL, "cat")),
        ..app()
    };
    let refusal = resolve(&request, &catalogs).unwrap_err();
    let report = &refusal.catalogs[0];
    assert_eq!((report.bundles, report.in_channels, report.in_range, report.matching), (3, 2, 0, 0));
    assert!(!refusal.catalogs[1].selected);
    let hints: Vec<String> = refusal.hints.iter().map(ToString::to_string).collect();
    assert_eq!(hints, ["without a version range it would be app.v2.0.0 (2.0.0) from catalog cat"]);
    // Nothing alone helps, two changes do.
    let request = Request { installed: installed("1.0.0"), version: Some("3.x".into()), selector: request.selector, ..app() };
    let refusal = resolve(&request, &catalogs).unwrap_err();
    assert!(refusal.hints.iter().any(|hint| hint.changes == [Change::SelfCertified]), "{:?}", refusal.hints);
    let tied = resolve(&app(), &catalogs).unwrap_err();
    assert_eq!(
        tied.hints.iter().map(|hint| hint.changes[0].clone()).collect::<Vec<_>>(),
        [Change::Catalog("cat".into()), Change::Catalog("other".into())]
    );
    let typo = resolve(&Request { package: "ap".into(), ..Request::default() }, &catalogs).unwrap_err();
    assert_eq!(typo.hints[0].changes, [Change::Package("app".into())]);
}

/// OLM1-INST-04: a bundle with a dependency is refused, no other one is taken instead, and the hint names one that would do.
#[test]
fn dependencies() {
    let text = "1.0.0 @stable\n2.0.0 @stable replaces=1.0.0 needs=olm.gvk.required";
    let source = universe(text);
    let labels = BTreeMap::new();
    let catalogs = [CandidateCatalog { name: "cat", labels: &labels, priority: 0, state: CatalogState::Content(&source) }];
    let refusal = resolve(&app(), &catalogs).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "validating bundle \"app.v2.0.0\": bundle \"app.v2.0.0\" has a dependency declared via property \"olm.gvk.required\" which is currently not supported"
    );
    assert_eq!(refusal.hints[0].to_string(), "with version \"1.0.0\" it would be app.v1.0.0 (1.0.0) from catalog cat");
}

/// OLM1-SEL-01, OLM1-SEL-12: a bundle whose version cannot be read is the last choice, and is refused by name.
#[test]
fn unreadable_versions() {
    assert_eq!(one(&app(), "v1 @stable\n0.0.1-alpha @stable"), "0.0.1-alpha@cat");
    let error = one(&app(), "v1 @stable");
    assert!(error.starts_with("error getting resolved bundle version for bundle \"app.vv1\": version \"v1\": "), "{error}");
    assert_eq!(
        one(&Request { version: Some("*".into()), ..app() }, "v1 @stable"),
        "no bundles found for package \"app\" matching version \"*\""
    );
    let unreadable = Request { installed: installed("one"), ..app() };
    assert!(
        one(&unreadable, "1.0.0 @stable").starts_with("error walking catalogs: parsing installed bundle \"app.vone\" version \"one\": ")
    );
    assert_eq!(one(&Request { policy: UpgradeConstraintPolicy::SelfCertified, ..unreadable }, "1.0.0 @stable"), "1.0.0@cat");
}

/// OLM1-SEL-01: the reasons say why it is this one.
#[test]
fn reasons() {
    let source = universe("1.0.0 @stable\n1.1.0 @stable replaces=1.0.0\n1.2.0 @stable range=\">=1.0.0 <1.2.0\" deprecated");
    let labels = BTreeMap::new();
    let catalogs = [CandidateCatalog { name: "cat", labels: &labels, priority: 0, state: CatalogState::Content(&source) }];
    let request = Request { installed: installed("1.0.0"), channels: vec!["stable".into()], version: Some("1.x".into()), ..app() };
    let resolution = resolve(&request, &catalogs).unwrap();
    assert!(!resolution.stays);
    assert_eq!(
        resolution.reasons,
        [
            "app.v1.1.0 is the newest of 3 bundles that fit and are not deprecated (newer but deprecated: 1)",
            "app.v1.0.0 is installed; app.v1.1.0 replaces it in channel stable",
            "its version matches \"1.x\"",
            "it is in channel stable",
        ]
    );
    assert!(resolve(&Request { installed: installed("1.1.0"), version: Some("1.1.0".into()), ..app() }, &catalogs).unwrap().stays);
}

/// The rules of SEL-06 and UPG-05 said once more, slowly: all bundles, all tests, a full sort.
fn oracle(request: &Request, bundles: &[Sample]) -> Option<String> {
    let fits = |b: &&Sample| {
        let in_channel = request.channels.is_empty() || request.channels.contains(&b.channel);
        let follows = match (&request.installed, request.policy) {
            (Some(at), UpgradeConstraintPolicy::CatalogProvided) => {
                let at = at.version.as_str();
                in_channel && (b.replaces.as_deref() == Some(at) || b.skips.iter().any(|s| s == at)) || b.version() == at
            }
            _ => true,
        };
        in_channel && follows
    };
    let mut fitting: Vec<&Sample> = bundles.iter().filter(fits).collect();
    fitting.sort_by_key(|b| (!b.deprecated, b.number));
    fitting.last().map(|b| b.version())
}

#[derive(Debug, Clone)]
struct Sample {
    number: usize,
    channel: String,
    replaces: Option<String>,
    skips: Vec<String>,
    deprecated: bool,
}

impl Sample {
    fn version(&self) -> String {
        format!("{}.0.0", self.number)
    }
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let version = (0usize..8).prop_map(|n| format!("{n}.0.0"));
    let sample =
        (prop_oneof![Just("stable"), Just("fast")], prop::option::of(version.clone()), prop::collection::vec(version, 0..3), any::<bool>());
    prop::collection::vec(sample, 1..8).prop_map(|rows| {
        let row = |(number, (channel, replaces, skips, deprecated)): (usize, (&str, _, _, _))| Sample {
            number,
            channel: channel.to_owned(),
            replaces,
            skips,
            deprecated,
        };
        rows.into_iter().enumerate().map(row).collect()
    })
}

proptest! {
    /// OLM1-SEL-06, OLM1-UPG-05: the resolver agrees with the slow oracle, and every hint is true.
    #[test]
    fn agrees_with_the_oracle(
        bundles in samples(),
        at in prop::option::of(0usize..8),
        channel in prop_oneof![Just(None), Just(Some("stable")), Just(Some("fast")), Just(Some("none"))],
        forced in any::<bool>(),
    ) {
        let lines: Vec<String> = bundles.iter().map(|b| {
            let replaces = b.replaces.as_ref().map_or(String::new(), |r| format!("replaces={r}"));
            let skips = if b.skips.is_empty() { String::new() } else { format!("skips={}", b.skips.join(",")) };
            format!("{} @{} {replaces} {skips} {}", b.version(), b.channel, if b.deprecated { "deprecated" } else { "" })
        }).collect();
        let source = universe(&lines.join("\n"));
        prop_assert!(source.package("app").is_some());
        let request = Request {
            channels: channel.map(str::to_owned).into_iter().collect(),
            installed: at.and_then(|n| installed(&format!("{n}.0.0"))),
            policy: if forced { UpgradeConstraintPolicy::SelfCertified } else { UpgradeConstraintPolicy::CatalogProvided },
            ..app()
        };
        let labels = BTreeMap::new();
        let catalogs = [CandidateCatalog { name: "cat", labels: &labels, priority: 0, state: CatalogState::Content(&source) }];
        let found = resolve(&request, &catalogs);
        prop_assert_eq!(found.as_ref().ok().map(|r| r.choice.version.clone()), oracle(&request, &bundles));
        for hint in found.err().into_iter().flat_map(|refusal| refusal.hints) {
            let mut changed = request.clone();
            for change in &hint.changes {
                match change {
                    Change::AnyVersion => changed.version = None,
                    Change::Version(version) => changed.version = Some(version.clone()),
                    Change::Channels(channels) => changed.channels.clone_from(channels),
                    Change::AnyChannel => changed.channels.clear(),
                    Change::SelfCertified => changed.policy = UpgradeConstraintPolicy::SelfCertified,
                    Change::AnyCatalog => changed.selector = None,
                    Change::Catalog(name) => changed.selector = Some(LabelSelector::label(NAME_LABEL, name)),
                    Change::Package(name) => changed.package.clone_from(name),
                    Change::AddMissing => unreachable!("only where roots are solved together"),
                }
            }
            let choice = resolve(&changed, &catalogs).expect("a hint leads to a bundle").choice;
            prop_assert_eq!(Some(choice), hint.leads_to);
        }
    }
}
