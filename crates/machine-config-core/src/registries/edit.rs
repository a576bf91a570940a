//! Rules are written into registries.conf.

use super::conf::{DIGEST_ONLY, Endpoint, RegistriesConf, Registry, TAG_ONLY};
use super::mirrors::{MergedRule, merged};
use super::rules::MirrorRules;
use super::scope::{is_inside, is_wildcard};
use crate::toml::quoted;

/// Mirrors of a wildcard that a more special entry would need, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("internal error: mirrorsAdjustedForNestedScope for a wildcard scope {}", quoted(.0))]
pub struct WildcardMirrors(pub String);

impl RegistriesConf {
    /// Writes rules into the file: mirrors by source, then what is insecure and blocked, down to more special entries, of which only the most
    /// special one counts when something is pulled. Those without mirrors of their own get the mirrors of what they lie in.
    ///
    /// # Errors
    /// A wildcard has mirrors, and a more special entry has none.
    pub fn edit(&mut self, insecure: &[String], blocked: &[String], rules: &MirrorRules) -> Result<(), WildcardMirrors> {
        let (digest, tag) = (merged(&rules.digest), merged(&rules.tag));
        self.add_mirrors(&digest, DIGEST_ONLY);
        self.add_mirrors(&tag, TAG_ONLY);
        for scope in blocked {
            self.entry(scope);
        }
        for scope in insecure {
            self.entry(scope);
            for registry in self.registries.iter_mut().flatten() {
                registry.endpoint.insecure |= is_inside(registry.scope(), scope);
                for mirror in &mut registry.mirrors {
                    mirror.insecure |= is_inside(&mirror.location, scope);
                }
            }
        }
        for scope in blocked {
            for registry in self.registries.iter_mut().flatten() {
                registry.blocked |= is_inside(registry.scope(), scope);
            }
        }
        digest.iter().chain(&tag).try_for_each(|rule| self.hand_down(&rule.source))
    }

    fn add_mirrors(&mut self, rules: &[MergedRule], pull_from_mirror: &str) {
        for rule in rules {
            let registry = self.entry(&rule.source);
            registry.blocked |= rule.never_source;
            registry.mirrors.extend(rule.mirrors.iter().map(|mirror| Endpoint {
                location: mirror.clone(),
                insecure: false,
                pull_from_mirror: pull_from_mirror.to_owned(),
            }));
        }
    }

    /// The entry of a scope, made if it is not there.
    fn entry(&mut self, scope: &str) -> &mut Registry {
        let registries = self.registries.get_or_insert_default();
        let at = registries.iter().position(|registry| registry.scope() == scope).unwrap_or_else(|| {
            let (prefix, location) = if is_wildcard(scope) { (scope, "") } else { ("", scope) };
            let endpoint = Endpoint { location: location.to_owned(), ..Endpoint::default() };
            registries.push(Registry { prefix: prefix.to_owned(), endpoint, ..Registry::default() });
            registries.len() - 1
        });
        &mut registries[at]
    }

    /// Gives entries inside a source that have no mirrors those of the source, at the same place in them.
    fn hand_down(&mut self, source: &str) -> Result<(), WildcardMirrors> {
        let outer = self.entry(source).clone();
        for registry in self.registries.iter_mut().flatten() {
            let scope = registry.scope().to_owned();
            if scope == outer.scope() || !is_inside(&scope, outer.scope()) || !registry.mirrors.is_empty() {
                continue;
            }
            if is_wildcard(outer.scope()) {
                return Err(WildcardMirrors(outer.scope().to_owned()));
            }
            let place = scope.strip_prefix(outer.scope()).unwrap_or_default();
            registry
                .mirrors
                .extend(outer.mirrors.iter().map(|mirror| Endpoint { location: format!("{}{place}", mirror.location), ..mirror.clone() }));
        }
        Ok(())
    }
}
