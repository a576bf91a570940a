//! Small random universes, and a slow and obvious search through every set of bundles in them.
//!
//! The rules are said once more here, by what each means for a set, and not by how the solver is asked. Each is a [`Rule`] that can be left
//! out, so that it can be told whether an explanation names the rules that are to blame, and no others.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_versions::{CatalogRange, ExtensionRange, Version};
use proptest::prelude::*;

/// A bundle of a package: `p<package>` in version `<number>.0.0`.
#[derive(Debug, Clone)]
pub struct Sample {
    pub package: usize,
    pub number: usize,
    pub fast: bool,
    pub deprecated: bool,
    pub replaces: Option<usize>,
    pub provides: Vec<usize>,
    pub needs: Vec<Need>,
}

#[derive(Debug, Clone)]
pub enum Need {
    Package(usize, &'static str),
    Api(usize),
    /// None of the others may provide it.
    Not(usize),
    /// One bundle of either package in either range.
    Any([(usize, &'static str); 2]),
}

#[derive(Debug, Clone)]
pub struct Wanted {
    pub package: usize,
    pub range: Option<String>,
    pub fast: Option<bool>,
    pub installed: Option<usize>,
    pub forced: bool,
}

#[derive(Debug, Clone)]
pub struct Sampled {
    pub bundles: Vec<Sample>,
    pub roots: Vec<Wanted>,
    pub provided: Vec<usize>,
    pub add_missing: bool,
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

pub fn sampled() -> impl Strategy<Value = Sampled> {
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
    let root = (range, prop::option::weighted(0.2, any::<bool>()), prop::option::weighted(0.4, 1usize..4), prop::bool::weighted(0.2));
    let roots =
        (prop::collection::vec(root, 1..4), Just((0..PACKAGES).collect::<Vec<_>>()).prop_shuffle()).prop_map(|(roots, packages)| {
            let one = |((range, fast, installed, forced), package): ((Option<&str>, _, _, _), _)| Wanted {
                package,
                range: range.map(str::to_owned),
                fast,
                installed,
                forced,
            };
            roots.into_iter().zip(packages).map(one).collect()
        });
    let provided = prop::collection::vec(0usize..3, 0..2);
    (bundles, roots, provided, any::<bool>()).prop_map(|(bundles, roots, provided, add_missing)| Sampled {
        bundles,
        roots,
        provided,
        add_missing,
    })
}

fn api_name(api: usize) -> String {
    let (kind, version) = APIS[api];
    format!("{kind}.g/{version}")
}

impl Sampled {
    pub fn text(&self) -> String {
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
        for root in &self.roots {
            let mut line = format!("root w{} p{}", root.package, root.package);
            line.extend(root.range.as_ref().map(|range| format!(" version=\"{range}\"")));
            line.extend(root.fast.map(|fast| format!(" channels={}", if fast { "fast" } else { "slow" })));
            line.extend(root.installed.map(|installed| format!(" installed={installed}.0.0")));
            if root.forced {
                line.push_str(" self-certified");
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    /// The candidates of a root by itself, the best first: the rules of one extension said once more.
    fn alone(&self, root: &Wanted) -> Vec<usize> {
        let fits = |at: &usize| {
            let bundle = &self.bundles[*at];
            bundle.package == root.package && root.in_range(bundle) && root.in_channel(bundle) && root.may_follow(bundle)
        };
        let mut found: Vec<usize> = (0..self.bundles.len()).filter(fits).collect();
        found.sort_by_key(|at| (self.bundles[*at].deprecated, std::cmp::Reverse(self.bundles[*at].number)));
        found
    }

    /// Whether a root must not go back to an older version for the sake of others: by itself it does not.
    fn keeps_up(&self, root: &Wanted) -> bool {
        root.installed.is_some_and(|installed| self.alone(root).first().is_some_and(|best| self.bundles[*best].number >= installed))
    }

    /// The candidates of a root among others.
    fn candidates(&self, root: &Wanted) -> Vec<usize> {
        let keeps_up = self.keeps_up(root);
        let mut found = self.alone(root);
        found.retain(|at| !keeps_up || root.installed.is_none_or(|installed| self.bundles[*at].number >= installed));
        found
    }

    /// Roots that no bundle meets even alone.
    pub fn refused(&self) -> BTreeSet<usize> {
        (0..self.roots.len()).filter(|root| self.alone(&self.roots[*root]).is_empty()).collect()
    }

    /// Every rule of the universe, where the roots in `fixed` keep what they have.
    pub fn rules(&self, fixed: &BTreeSet<usize>) -> BTreeSet<Rule> {
        let mut rules = BTreeSet::new();
        for (at, root) in self.roots.iter().enumerate() {
            if fixed.contains(&at) {
                rules.insert(if root.installed.is_some() { Rule::Stays(at) } else { Rule::Absent(at) });
                continue;
            }
            rules.extend([Rule::Wanted(at), Rule::Range(at), Rule::Channels(at), Rule::Edges(at)]);
            if self.keeps_up(root) {
                rules.insert(Rule::NoWayBack(at));
            }
        }
        for package in (0..PACKAGES).filter(|package| !self.add_missing && self.roots.iter().all(|root| root.package != *package)) {
            rules.insert(Rule::NotAsked(package));
        }
        for bundle in &self.bundles {
            rules.extend(bundle.needs.iter().map(|need| Rule::Need(bundle.package, need.to_string())));
        }
        rules.extend(APIS.map(|(kind, _)| Rule::OneProvider(kind.to_owned())));
        rules
    }

    /// Every set of bundles that keeps the rules.
    pub fn sets(&self, fixed: &BTreeSet<usize>, rules: &BTreeSet<Rule>) -> Vec<Vec<There<'_>>> {
        let mut sets: Vec<Vec<There<'_>>> = vec![Vec::new()];
        for package in 0..PACKAGES {
            let some = self.there(fixed, package);
            let mut longer = sets.clone();
            for set in &sets {
                longer.extend(some.iter().map(|one| set.iter().chain([one]).cloned().collect::<Vec<There<'_>>>()));
            }
            sets = longer;
        }
        sets.retain(|set| rules.iter().all(|rule| self.keeps(set, rule)));
        sets
    }

    /// What may be there of a package.
    fn there(&self, fixed: &BTreeSet<usize>, package: usize) -> Vec<There<'_>> {
        let keeper = fixed.iter().map(|root| &self.roots[*root]).find(|root| root.package == package);
        let installed = keeper.and_then(|root| root.installed);
        let of_package = self.bundles.iter().filter(|bundle| bundle.package == package);
        let mut all: Vec<There<'_>> = of_package
            .map(|bundle| {
                let stays = installed == Some(bundle.number);
                // What is broken already is nobody's fault.
                let needs = bundle.needs.iter().filter(|need| !stays || self.met(&self.installed(), package, need)).collect();
                There { package, number: bundle.number, provides: &bundle.provides, needs, stays, deprecated: bundle.deprecated }
            })
            .collect();
        if let Some(number) = installed.filter(|number| all.iter().all(|there| there.number != *number)) {
            all.push(There { package, number, provides: &[], needs: Vec::new(), stays: true, deprecated: false });
        }
        all
    }

    /// What is installed before anything moves.
    fn installed(&self) -> Vec<There<'_>> {
        let of = |root: &Wanted| {
            let number = root.installed?;
            let known = self.bundles.iter().find(|bundle| bundle.package == root.package && bundle.number == number);
            let provides = known.map_or(&[][..], |bundle| &bundle.provides);
            Some(There { package: root.package, number, provides, needs: Vec::new(), stays: true, deprecated: false })
        };
        self.roots.iter().filter_map(of).collect()
    }

    /// Whether a set meets a need of a bundle of a package.
    fn met(&self, set: &[There<'_>], package: usize, need: &Need) -> bool {
        let is = |there: &There<'_>, (package, range): (usize, &str)| {
            there.package == package && CatalogRange::parse(range).unwrap().matches(&version(there.number))
        };
        match need {
            Need::Package(package, range) => set.iter().any(|there| is(there, (*package, range))),
            Need::Api(api) => self.provided.contains(api) || set.iter().any(|there| there.provides.contains(api)),
            Need::Not(api) => {
                !self.provided.contains(api) && !set.iter().any(|there| there.package != package && there.provides.contains(api))
            }
            Need::Any(either) => either.iter().any(|one| set.iter().any(|there| is(there, *one))),
        }
    }

    fn keeps(&self, set: &[There<'_>], rule: &Rule) -> bool {
        let of_package = |package: usize| set.iter().find(|there| there.package == package);
        let of_root = |root: usize| of_package(self.roots[root].package);
        // A bundle that stays was never chosen, so what a root says of its candidates does not concern it.
        let candidate = |root: usize, fits: &dyn Fn(&Wanted, &Sample) -> bool| {
            let number = of_root(root).map(|there| there.number);
            let known = |bundle: &&Sample| bundle.package == self.roots[root].package && Some(bundle.number) == number;
            self.bundles.iter().find(known).is_none_or(|bundle| fits(&self.roots[root], bundle))
        };
        match rule {
            Rule::Wanted(root) => of_root(*root).is_some(),
            Rule::Range(root) => candidate(*root, &|root, bundle| root.in_range(bundle)),
            Rule::Channels(root) => candidate(*root, &|root, bundle| root.in_channel(bundle)),
            Rule::Edges(root) => candidate(*root, &|root, bundle| root.may_follow(bundle)),
            Rule::NoWayBack(root) => candidate(*root, &|root, bundle| root.installed.is_none_or(|installed| bundle.number >= installed)),
            Rule::Stays(root) => of_root(*root).is_some_and(|there| there.stays),
            Rule::Absent(root) => of_root(*root).is_none(),
            Rule::NotAsked(package) => of_package(*package).is_none(),
            Rule::Need(package, said) => {
                let needs = of_package(*package).into_iter().flat_map(|there| &there.needs);
                needs.filter(|need| need.to_string() == *said).all(|need| self.met(set, *package, need))
            }
            Rule::OneProvider(kind) => {
                let provides = |there: &&There<'_>| there.provides.iter().any(|api| APIS[*api].0 == kind);
                let providers: Vec<&There<'_>> = set.iter().filter(provides).collect();
                // What stays besides each other already is not questioned.
                providers.iter().enumerate().all(|(i, one)| providers[i + 1..].iter().all(|other| one.stays && other.stays))
            }
        }
    }

    /// Which roots can be met, and the best set that meets them, in the order that `solve` documents.
    pub fn outcome(&self) -> Outcome {
        let mut fixed = self.refused();
        loop {
            let rules = self.rules(&fixed);
            let open: BTreeSet<usize> = (0..self.roots.len()).filter(|root| !fixed.contains(root)).collect();
            let sets = self.sets(&fixed, &rules);
            if !sets.is_empty() {
                return self.best(fixed, &open, &sets);
            }
            let mut order: Vec<usize> = open.iter().copied().collect();
            order.sort_by_key(|root| (self.roots[*root].installed.is_none(), *root));
            let mut accepted = BTreeSet::new();
            for root in order {
                accepted.insert(root);
                if self.sets(&fixed, &only(&rules, &accepted)).is_empty() {
                    accepted.remove(&root);
                }
            }
            fixed.extend(open.difference(&accepted));
        }
    }

    fn best(&self, unmet: BTreeSet<usize>, open: &BTreeSet<usize>, sets: &[Vec<There<'_>>]) -> Outcome {
        let number = |set: &[There<'_>], root: usize| {
            set.iter().find(|there| there.package == self.roots[root].package).map_or(0, |there| there.number)
        };
        let rank = |set: &Vec<There<'_>>| {
            let of = |root: &usize| {
                let order = self.candidates(&self.roots[*root]);
                order.iter().position(|at| self.bundles[*at].number == number(set, *root))
            };
            (open.iter().map(of).collect::<Vec<_>>(), set.len())
        };
        let best = sets.iter().min_by_key(|set| rank(set)).unwrap();
        let chosen = open.iter().map(|root| (*root, number(best, *root))).collect();
        let requested = |there: &&There<'_>| self.roots.iter().any(|root| root.package == there.package);
        Outcome { unmet, chosen, additions: best.iter().filter(|there| !requested(there)).count() }
    }

    /// Whether additions go with what was chosen, whatever stays besides.
    pub fn holds(&self, outcome: &Outcome, additions: &BTreeMap<usize, usize>) -> bool {
        let as_chosen = |set: &Vec<There<'_>>| {
            let number = |package: usize| set.iter().find(|there| there.package == package).map(|there| there.number);
            let requested = |package: usize| self.roots.iter().any(|root| root.package == package);
            outcome.chosen.iter().all(|(root, chosen)| number(self.roots[*root].package) == Some(*chosen))
                && (0..PACKAGES).filter(|package| !requested(*package)).all(|package| number(package) == additions.get(&package).copied())
        };
        self.sets(&outcome.unmet, &self.rules(&outcome.unmet)).iter().any(as_chosen)
    }
}

/// The rules without those by which other roots want something.
pub fn only(rules: &BTreeSet<Rule>, wanted: &BTreeSet<usize>) -> BTreeSet<Rule> {
    rules.iter().filter(|rule| !matches!(rule, Rule::Wanted(root) if !wanted.contains(root))).cloned().collect()
}

/// What the slow search finds.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Roots that get nothing.
    pub unmet: BTreeSet<usize>,
    /// By root: the number of its bundle.
    pub chosen: BTreeMap<usize, usize>,
    /// How many bundles are there that nobody asked for.
    pub additions: usize,
}

/// A bundle that is there, be it chosen, added, or left as it is.
#[derive(Debug, Clone)]
pub struct There<'s> {
    package: usize,
    number: usize,
    provides: &'s [usize],
    needs: Vec<&'s Need>,
    stays: bool,
    #[allow(dead_code, reason = "read by people, where a case fails")]
    deprecated: bool,
}

/// Something that a set must keep; roots by position, packages by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Wanted(usize),
    Range(usize),
    Channels(usize),
    Edges(usize),
    NoWayBack(usize),
    Stays(usize),
    Absent(usize),
    NotAsked(usize),
    /// As explanations say it.
    Need(usize, String),
    /// The kind.
    OneProvider(String),
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Package(package, range) => write!(f, "requires package p{package} {range}"),
            Self::Api(api) => write!(f, "requires API {}", api_name(*api)),
            Self::Not(api) => write!(f, "does not go together with API {}", api_name(*api)),
            Self::Any([(a, one), (b, other)]) => write!(f, "requires one of [package p{a} {one}, package p{b} {other}]"),
        }
    }
}

impl Wanted {
    fn in_range(&self, bundle: &Sample) -> bool {
        self.range.as_ref().is_none_or(|range| ExtensionRange::parse(range).unwrap().matches(&version(bundle.number)))
    }

    fn in_channel(&self, bundle: &Sample) -> bool {
        self.fast.is_none_or(|fast| fast == bundle.fast)
    }

    fn may_follow(&self, bundle: &Sample) -> bool {
        self.forced || self.installed.is_none_or(|at| at == bundle.number || bundle.replaces == Some(at))
    }
}

fn version(number: usize) -> Version {
    Version::new(number as u64, 0, 0)
}

/// So many cases, or as many as `PROPTEST_CASES` says.
pub fn cases(count: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(count),
    }
}
