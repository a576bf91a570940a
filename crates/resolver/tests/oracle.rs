//! Joint resolution against a slow and obvious search through every set of bundles.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod language;

use std::collections::BTreeMap;

use language::World;
use mainstay_resolver::joint::solve;
use mainstay_resolver::{Change, LabelSelector, UpgradeConstraintPolicy, resolve};
use mainstay_versions::{CatalogRange, ExtensionRange, Version};
use proptest::prelude::*;

/// A bundle of a package: `p<package>` in version `<number>.0.0`.
#[derive(Debug, Clone)]
struct Sample {
    package: usize,
    number: usize,
    fast: bool,
    deprecated: bool,
    replaces: Option<usize>,
    provides: Vec<usize>,
    needs: Vec<Need>,
}

#[derive(Debug, Clone)]
enum Need {
    Package(usize, &'static str),
    Api(usize),
    /// None of the others may provide it.
    Not(usize),
    /// One bundle of either package in either range.
    Any([(usize, &'static str); 2]),
}

#[derive(Debug, Clone)]
struct Wanted {
    package: usize,
    range: Option<&'static str>,
    fast: Option<bool>,
    installed: Option<usize>,
    forced: bool,
}

#[derive(Debug, Clone)]
struct Sampled {
    bundles: Vec<Sample>,
    wishes: Vec<Wanted>,
    provided: Vec<usize>,
    add_missing: bool,
}

/// APIs: the last two are versions of one kind.
const APIS: [(&str, &str); 3] = [("A0", "v1"), ("A1", "v1"), ("A1", "v2")];
const PACKAGES: usize = 4;
const RANGES: [&str; 5] = [">=1.0.0", ">=2.0.0", "<2.0.0", "2.x", ">=9.0.0"];

fn need() -> impl Strategy<Value = Need> {
    let range = || prop::sample::select(RANGES.to_vec());
    prop_oneof![
        4 => (0..PACKAGES, range()).prop_map(|(package, range)| Need::Package(package, range)),
        3 => (0usize..3).prop_map(Need::Api),
        1 => (0usize..3).prop_map(Need::Not),
        1 => ((0..PACKAGES, range()), (0..PACKAGES, range())).prop_map(|(a, b)| Need::Any([a, b])),
    ]
}

fn sampled() -> impl Strategy<Value = Sampled> {
    let bundle = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::option::of(1usize..4),
        prop::collection::vec(0usize..3, 0..2),
        prop::collection::vec(need(), 0..2),
    );
    let package = prop::collection::vec(bundle, 1..4);
    let bundles = prop::collection::vec(package, PACKAGES).prop_map(|packages| {
        let mut all = Vec::new();
        for (package, bundles) in packages.into_iter().enumerate() {
            for (at, (fast, deprecated, replaces, provides, needs)) in bundles.into_iter().enumerate() {
                all.push(Sample { package, number: at + 1, fast, deprecated, replaces, provides, needs });
            }
        }
        all
    });
    let range = prop::option::weighted(0.3, prop::sample::select(RANGES.to_vec()));
    let wish = (range, prop::option::weighted(0.2, any::<bool>()), prop::option::weighted(0.4, 1usize..4), prop::bool::weighted(0.2));
    let wishes =
        (prop::collection::vec(wish, 1..4), Just((0..PACKAGES).collect::<Vec<_>>()).prop_shuffle()).prop_map(|(wishes, packages)| {
            let one = |((range, fast, installed, forced), package)| Wanted { package, range, fast, installed, forced };
            wishes.into_iter().zip(packages).map(one).collect()
        });
    let provided = prop::collection::vec(0usize..3, 0..2);
    (bundles, wishes, provided, any::<bool>()).prop_map(|(bundles, wishes, provided, add_missing)| Sampled {
        bundles,
        wishes,
        provided,
        add_missing,
    })
}

fn api_name(api: usize) -> String {
    let (kind, version) = APIS[api];
    format!("{kind}.g/{version}")
}

impl Sampled {
    fn text(&self) -> String {
        let mut lines = vec!["catalog main".to_owned()];
        for bundle in &self.bundles {
            let mut line = format!("  p{} {}.0.0 @{}", bundle.package, bundle.number, if bundle.fast { "fast" } else { "slow" });
            line.extend(bundle.replaces.map(|replaced| format!(" replaces={replaced}.0.0")));
            line.extend(bundle.provides.iter().map(|api| format!(" provides={}", api_name(*api))));
            for need in &bundle.needs {
                let package = |(package, range): &(usize, &str)| {
                    format!("{{\"package\":{{\"packageName\":\"p{package}\",\"versionRange\":\"{range}\"}}}}")
                };
                let text = match need {
                    Need::Package(package, range) => format!(" package=p{package}:\"{range}\""),
                    Need::Api(api) => format!(" api={}", api_name(*api)),
                    Need::Not(api) => {
                        let (kind, version) = APIS[*api];
                        format!(
                            " constraint={{\"not\":{{\"constraints\":[{{\"gvk\":{{\"group\":\"g\",\"version\":\"{version}\",\"kind\":\"{kind}\"}}}}]}}}}"
                        )
                    }
                    Need::Any([a, b]) => format!(" constraint={{\"any\":{{\"constraints\":[{},{}]}}}}", package(a), package(b)),
                };
                line.push_str(&text);
            }
            if bundle.deprecated {
                line.push_str(" deprecated");
            }
            lines.push(line);
        }
        lines.extend(self.provided.iter().map(|api| format!("provided {} by=crd-{api}", api_name(*api))));
        if self.add_missing {
            lines.push("add-missing".to_owned());
        }
        for wish in &self.wishes {
            let mut line = format!("wish w{} p{}", wish.package, wish.package);
            line.extend(wish.range.map(|range| format!(" version=\"{range}\"")));
            line.extend(wish.fast.map(|fast| format!(" channels={}", if fast { "fast" } else { "slow" })));
            line.extend(wish.installed.map(|installed| format!(" installed={installed}.0.0")));
            if wish.forced {
                line.push_str(" self-certified");
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    /// The candidates of a wish, the best first: the rules of one extension said once more.
    fn candidates(&self, wish: &Wanted) -> Vec<usize> {
        let fits = |at: &usize| {
            let bundle = &self.bundles[*at];
            let version = Version::new(bundle.number as u64, 0, 0);
            bundle.package == wish.package
                && wish.range.is_none_or(|range| ExtensionRange::parse(range).unwrap().matches(&version))
                && wish.fast.is_none_or(|fast| fast == bundle.fast)
                && (wish.forced || wish.installed.is_none_or(|at| at == bundle.number || bundle.replaces == Some(at)))
        };
        let mut found: Vec<usize> = (0..self.bundles.len()).filter(fits).collect();
        found.sort_by_key(|at| (self.bundles[*at].deprecated, std::cmp::Reverse(self.bundles[*at].number)));
        found
    }

    /// Whether a set of bundles may be there together.
    fn holds(&self, set: &[usize]) -> bool {
        let bundles: Vec<&Sample> = set.iter().map(|at| &self.bundles[*at]).collect();
        let is = |bundle: &Sample, (package, range): (usize, &str)| {
            bundle.package == package && CatalogRange::parse(range).unwrap().matches(&Version::new(bundle.number as u64, 0, 0))
        };
        let met = |own: &Sample, need: &Need| match need {
            Need::Package(package, range) => bundles.iter().any(|other| is(other, (*package, range))),
            Need::Api(api) => self.provided.contains(api) || bundles.iter().any(|other| other.provides.contains(api)),
            Need::Not(api) => {
                !self.provided.contains(api) && !bundles.iter().any(|other| other.package != own.package && other.provides.contains(api))
            }
            Need::Any(either) => either.iter().any(|one| bundles.iter().any(|other| is(other, *one))),
        };
        let alone = |(at, bundle): (usize, &&Sample)| {
            bundles[at + 1..].iter().all(|other| {
                bundle.package != other.package
                    && !bundle.provides.iter().any(|api| other.provides.iter().any(|also| APIS[*also].0 == APIS[*api].0))
            })
        };
        bundles.iter().enumerate().all(alone) && bundles.iter().all(|bundle| bundle.needs.iter().all(|need| met(bundle, need)))
    }

    /// The best set of all sets, in the order that `solve` documents; nothing when no set meets all wishes.
    fn best(&self) -> Option<Vec<usize>> {
        let wished = |at: &usize| self.wishes.iter().any(|wish| wish.package == self.bundles[*at].package);
        let candidates: Vec<Vec<usize>> = self.wishes.iter().map(|wish| self.candidates(wish)).collect();
        let addable: Vec<usize> = (0..self.bundles.len()).filter(|at| self.add_missing && !wished(at)).collect();
        let mut best: Option<(Vec<usize>, Vec<usize>)> = None;
        let mut picks: Vec<Vec<usize>> = vec![Vec::new()];
        for order in &candidates {
            picks = picks.iter().flat_map(|pick| (0..order.len()).map(|rank| [pick.clone(), vec![rank]].concat())).collect();
        }
        for ranks in picks {
            let chosen: Vec<usize> = ranks.iter().zip(&candidates).map(|(rank, order)| order[*rank]).collect();
            for bits in 0..1usize << addable.len() {
                let added: Vec<usize> = addable.iter().enumerate().filter(|(i, _)| bits & 1 << i != 0).map(|(_, at)| *at).collect();
                let set: Vec<usize> = chosen.iter().chain(&added).copied().collect();
                if !self.holds(&set) {
                    continue;
                }
                let rank: Vec<usize> = ranks.iter().copied().chain([added.len()]).collect();
                if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                    best = Some((rank, set));
                }
            }
        }
        best.map(|(_, set)| set)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// MS-EXPL-01, MS-EXPL-05, OLM0-RES-05, OLM0-RES-07, OLM0-RES-19, OLM1-OWN-02: the same choice as the slow search, or both impossible; what is
    /// chosen holds; every hint is true; asked again, the answer is the same.
    #[test]
    fn agrees_with_the_slow_search(sampled in sampled()) {
        let world = World::read(&sampled.text());
        let catalogs = world.candidates();
        let problem = world.problem(&catalogs);
        let components = solve(&problem);
        prop_assert_eq!(format!("{:?}", components), format!("{:?}", solve(&problem)));
        let mut chosen: BTreeMap<String, String> = BTreeMap::new();
        let mut added: Vec<String> = Vec::new();
        let mut possible = true;
        for component in &components {
            match &component.outcome {
                Ok(solution) => {
                    chosen.extend(solution.chosen.iter().map(|(subject, resolution)| (subject.clone(), resolution.choice.bundle.clone())));
                    added.extend(solution.added.iter().map(|added| added.choice.bundle.clone()));
                    prop_assert!(solution.added.iter().all(|added| !added.because.is_empty()));
                }
                Err(conflict) => {
                    possible = false;
                    prop_assert!(!conflict.facts.is_empty());
                    prop_assert!(!conflict.to_string().is_empty());
                }
            }
        }
        let subjects: usize = components.iter().map(|component| component.subjects.len()).sum();
        prop_assert_eq!(subjects, world.wishes.len());
        match sampled.best() {
            None => prop_assert!(!possible, "the slow search found nothing"),
            Some(set) => {
                prop_assert!(possible, "the slow search found {set:?}");
                for wish in &sampled.wishes {
                    let expected = set.iter().map(|at| &sampled.bundles[*at]).find(|bundle| bundle.package == wish.package).unwrap();
                    prop_assert_eq!(&chosen[&format!("clusterextension w{}", wish.package)], &format!("p{}.v{}.0.0", wish.package, expected.number));
                }
                prop_assert_eq!(added.len(), set.len() - sampled.wishes.len());
                let there: Vec<usize> = (0..sampled.bundles.len()).filter(|at| {
                    let name = format!("p{}.v{}.0.0", sampled.bundles[*at].package, sampled.bundles[*at].number);
                    added.contains(&name) || chosen.values().any(|other| *other == name)
                }).collect();
                prop_assert!(sampled.holds(&there), "what was chosen does not hold");
            }
        }
        for component in &components {
            let Err(conflict) = &component.outcome else { continue };
            for hint in &conflict.hints {
                let mut changed = World::read(&sampled.text());
                let wish = changed.wishes.iter_mut().find(|wish| wish.subject == hint.subject).unwrap();
                for change in &hint.changes {
                    match change {
                        Change::AnyVersion => wish.request.version = None,
                        Change::Version(version) => wish.request.version = Some(version.clone()),
                        Change::Channels(channels) => wish.request.channels.clone_from(channels),
                        Change::AnyChannel => wish.request.channels.clear(),
                        Change::SelfCertified => wish.request.policy = UpgradeConstraintPolicy::SelfCertified,
                        Change::AnyCatalog => wish.request.selector = None,
                        Change::Catalog(name) => wish.request.selector = Some(LabelSelector::label(language::NAME_LABEL, name)),
                        Change::Package(name) => wish.request.package.clone_from(name),
                        Change::AddMissing => changed.add_missing = true,
                    }
                }
                // A hint of a wish that is refused by itself was tried by itself.
                let alone = resolve(&world.wishes.iter().find(|wish| wish.subject == component.subjects[0]).unwrap().request, &catalogs);
                if alone.is_err_and(|refusal| refusal.to_string() == conflict.to_string()) {
                    continue;
                }
                let candidates = changed.candidates();
                let after = solve(&changed.problem(&candidates));
                let met = after.iter().find(|other| other.subjects.contains(&component.subjects[0])).unwrap();
                prop_assert!(met.outcome.is_ok(), "{hint} does not lead anywhere");
            }
        }
    }
}
