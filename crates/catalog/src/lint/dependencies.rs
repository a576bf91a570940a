//! Rules about how dependencies are written (OLM0-RES-30, OLM0-RES-31).
//!
//! Dependencies of the plain types `olm.package` and `olm.gvk` are satisfied one by one, possibly by different bundles. Only an `olm.constraint`
//! asks several things of one bundle.

use std::collections::BTreeMap;

use mainstay_versions::CatalogRange;

use super::needs::Offers;
use super::{Report, Rule, Subject};
use crate::model::Bundle;
use crate::parts::{Parts, version};
use crate::properties::{Api, Facts, Need, provided, stated_needs};

pub(super) fn check(packages: &BTreeMap<&str, Parts<'_>>, offers: &Offers<'_>, report: &mut Report<'_>) {
    for (name, parts) in packages {
        let mut advice: BTreeMap<(Rule, String), Vec<(&Bundle, String)>> = BTreeMap::new();
        for bundle in &parts.bundles {
            for (rule, field, message) in Dependencies::of(bundle, offers, packages).advice(name) {
                advice.entry((rule, message)).or_default().push((bundle, field));
            }
        }
        for ((rule, message), bundles) in advice {
            let number = bundles.len();
            let Some((newest, field)) = bundles.into_iter().max_by_key(|(bundle, _)| version(bundle)) else { continue };
            let more = match number {
                1 => String::new(),
                number => format!(" (so it is with {number} of {} bundles; this is the newest)", parts.bundles.len()),
            };
            report.add_field(rule, Subject::bundle(name, newest.name.as_str()), field, message + &more);
        }
    }
}

/// The dependencies of a bundle, and what the catalog knows of them.
struct Dependencies<'a> {
    bundle: &'a Bundle,
    needs: Vec<(usize, Need)>,
    offers: &'a Offers<'a>,
    packages: &'a BTreeMap<&'a str, Parts<'a>>,
}

impl<'a> Dependencies<'a> {
    fn of(bundle: &'a Bundle, offers: &'a Offers<'a>, packages: &'a BTreeMap<&'a str, Parts<'a>>) -> Self {
        Self { bundle, needs: stated_needs(bundle).collect(), offers, packages }
    }

    /// Findings: rule, field and message.
    fn advice(&self, package: &str) -> Vec<(Rule, String, String)> {
        let mut found = self.undeclared(package);
        for (index, need) in &self.needs {
            let field = format!("properties[{index}].value");
            match need {
                Need::Api(api) => {
                    found.extend(self.api_only(package, api).map(|message| (Rule::DependencyApiOnly, field.clone(), message)));
                    found.extend(self.mixed(api).into_iter().map(|message| (Rule::DependencyMixed, field.clone(), message)));
                }
                Need::Package { package, range } => {
                    found.extend(narrow(package, range).map(|message| (Rule::DependencyNarrow, format!("{field}.versionRange"), message)));
                }
                Need::All(_) => {
                    for inner in joined(need) {
                        if let Need::Package { package, range } = inner {
                            found.extend(narrow(package, range).map(|message| (Rule::DependencyNarrow, field.clone(), message)));
                        }
                    }
                    found.extend(several(need).map(|message| (Rule::DependencyAllPackages, field.clone(), message)));
                }
                Need::Any(_) | Need::Not(_) | Need::Expression(_) => {}
            }
        }
        found
    }

    /// APIs that the CSV requires and no dependency brings.
    fn undeclared(&self, package: &str) -> Vec<(Rule, String, String)> {
        // Metadata that cannot be read has a rule of its own.
        let Ok(Some(facts)) = Facts::of(self.bundle) else { return Vec::new() };
        // An expression may ask for anything.
        let unknown = self.needs.iter().any(|(_, need)| asks(need, &|need| matches!(need, Need::Expression(_))));
        let missing = |(field, api): (String, Api)| {
            let declared = self.needs.iter().any(|(_, need)| {
                asks(need, &|need| match need {
                    Need::Api(known) => *known == api,
                    Need::Package { package, .. } => self.offers.providers(&api).any(|provider| provider == package),
                    _ => false,
                })
            });
            let own = self.offers.providers(&api).any(|provider| provider == package) && provided(self.bundle).contains(&api);
            (!declared && !own).then(|| {
                let providers: Vec<&str> = self.offers.providers(&api).collect();
                let by = if providers.is_empty() { String::new() } else { format!("; here {} provides it", providers.join(", ")) };
                (Rule::DependencyUndeclared, field, format!("the CSV requires API {api}, which no dependency names{by}"))
            })
        };
        if unknown { Vec::new() } else { facts.required_apis().filter_map(missing).collect() }
    }

    /// An API whose only provider no dependency names.
    fn api_only(&self, own: &str, api: &Api) -> Option<String> {
        let mut providers = self.offers.providers(api);
        let (provider, None) = (providers.next()?, providers.next()) else { return None };
        let named = |need: &Need| matches!(need, Need::Package { package, .. } if package == provider);
        if provider == own || self.needs.iter().any(|(_, need)| asks(need, &named)) {
            return None;
        }
        let bundles = &self.packages.get(provider)?.bundles;
        let least = bundles.iter().filter(|bundle| provided(bundle).contains(api)).filter_map(|bundle| version(bundle)).min()?;
        Some(format!("needs API {api} of whichever version; here package {provider} provides it, from \">={least}\" on"))
    }

    /// An API beside a package that provides it.
    fn mixed(&self, api: &Api) -> Option<String> {
        let providers: Vec<&str> = self.offers.providers(api).collect();
        let (package, range) = self.needs.iter().find_map(|(_, need)| match need {
            Need::Package { package, range } if providers.contains(&package.as_str()) => Some((package, range)),
            _ => None,
        })?;
        let others: Vec<&str> = providers.into_iter().filter(|provider| provider != package).collect();
        let others = match others.as_slice() {
            [] => "another package with the API may satisfy the second".to_owned(),
            others => format!("{} may satisfy the second", others.join(" or ")),
        };
        Some(format!("needs package {package} {range:?} and, by another dependency, API {api} of it: {others}"))
    }
}

fn narrow(package: &str, range: &str) -> Option<String> {
    // A range that cannot be read has a rule of its own.
    let parsed = CatalogRange::parse(range).ok()?;
    let end = parsed.narrow_end()?;
    Some(format!("needs package {package} {range:?}, which ends at {end}, inside of major version {}", end.major()))
}

/// The packages of a conjunction, if there are several.
fn several(need: &Need) -> Option<String> {
    let mut packages: Vec<&str> = joined(need)
        .into_iter()
        .filter_map(|need| match need {
            Need::Package { package, .. } => Some(package.as_str()),
            _ => None,
        })
        .collect();
    packages.sort_unstable();
    packages.dedup();
    (packages.len() > 1).then(|| format!("asks one bundle to belong to the packages {}", packages.join(" and ")))
}

/// The parts of a conjunction, those of nested ones too.
fn joined(need: &Need) -> Vec<&Need> {
    match need {
        Need::All(needs) => needs.iter().flat_map(joined).collect(),
        need => vec![need],
    }
}

/// Returns whether a requirement, or a part of it that is not negated, has a property.
fn asks(need: &Need, has: &dyn Fn(&Need) -> bool) -> bool {
    match need {
        Need::All(needs) | Need::Any(needs) => needs.iter().any(|need| asks(need, has)),
        Need::Not(_) => false,
        need => has(need),
    }
}
