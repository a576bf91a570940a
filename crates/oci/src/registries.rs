//! `registries.conf`: mirrors, insecure and blocked registries (the version 2 format of the container tools).

use toml_edit::{Document, Item, Table};

use crate::error::Error;
use crate::mirror::By;
use crate::reference::Reference;
use crate::short_names::ShortNames;

/// The place of a mistake in the registries' settings, and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidSetting(pub(crate) String);

/// Rules about registries; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registries {
    rules: Vec<Rule>,
    pub(crate) short_names: ShortNames,
    helpers: Vec<String>,
}

/// The largest file, in bytes.
const MAX_FILE: usize = 4 << 20;
const MAX_RULES: usize = 10_000;
/// Entry among the credential helpers that stands for the auth files.
const AUTH_FILES: &str = "containers-auth.json";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    digest_only: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    pulls: Pulls,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pulls {
    All,
    DigestOnly,
    TagOnly,
}

/// A place that may hold an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The image's reference there.
    pub reference: Reference,
    /// Allows unverified TLS and plain HTTP.
    pub insecure: bool,
}

impl Registries {
    /// Reads the text of a `registries.conf`; `subject` names it in errors.
    pub fn parse(subject: &str, text: &str) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Configuration { subject: subject.to_owned(), problem };
        let invalid = |problem: InvalidSetting| refuse(problem.to_string());
        if text.len() > MAX_FILE {
            return Err(Error::Limit { subject: subject.to_owned(), what: "size in bytes", limit: MAX_FILE as u64 });
        }
        let document = Document::parse(text).map_err(|error| refuse(error.to_string().trim_end().to_owned()))?;
        if document.get("registries").is_some() {
            return Err(refuse("version 1 format ([registries.search]) is not supported; use [[registry]] tables".to_owned()));
        }
        let tables = tables(document.as_table(), "registry").map_err(invalid)?;
        if tables.len() > MAX_RULES {
            return Err(Error::Limit { subject: subject.to_owned(), what: "number of registries", limit: MAX_RULES as u64 });
        }
        let rules: Vec<Rule> = tables.into_iter().map(Rule::read).collect::<Result<_, _>>().map_err(invalid)?;
        let short_names = ShortNames::read(document.as_table()).map_err(invalid)?;
        let helpers = texts(document.as_table(), "credential-helpers").map_err(invalid)?.unwrap_or_default();
        Ok(Self { rules, short_names, helpers })
    }

    /// Takes over the entries of a later file; they replace the entries here (`registries.conf.d`).
    pub fn extend(&mut self, later: Self) {
        self.rules.retain(|rule| later.rules.iter().all(|other| other.prefix != rule.prefix));
        self.rules.extend(later.rules);
        self.short_names.extend(later.short_names);
        if !later.helpers.is_empty() {
            self.helpers = later.helpers;
        }
    }

    /// Adds mirrors of a registry or a part of it. With `never`, the source itself is no longer asked.
    pub(crate) fn add_mirrors(&mut self, source: &str, mirrors: &[&str], by: By, never: bool) -> Result<(), InvalidSetting> {
        if let Some(place) = mirrors.iter().chain([&source]).find(|place| place.contains("://") || place.contains('@')) {
            return Err(InvalidSetting(format!("{place}: a registry or repository has neither scheme nor digest")));
        }
        let pulls = match by {
            By::Digest => Pulls::DigestOnly,
            By::Tag => Pulls::TagOnly,
        };
        let known = self.rules.iter().position(|rule| rule.prefix == source);
        if known.is_none() && self.rules.len() >= MAX_RULES {
            return Err(InvalidSetting(format!("{source}: there are rules for {MAX_RULES} registries already")));
        }
        // Settings of a registry as a whole apply to its parts and to mirrors in it, too.
        let whole = |name: &str| self.rule_of(name).map_or((false, false), |rule| (rule.insecure, rule.blocked));
        let mirrors: Vec<Mirror> =
            mirrors.iter().map(|location| Mirror { location: (*location).to_owned(), insecure: whole(location).0, pulls }).collect();
        let (insecure, blocked) = whole(source);
        let at = known.unwrap_or_else(|| {
            self.rules.push(Rule { insecure, blocked, ..Rule::plain(source) });
            self.rules.len() - 1
        });
        let rule = &mut self.rules[at];
        rule.blocked |= never;
        for mirror in mirrors {
            if !rule.mirrors.contains(&mirror) {
                rule.mirrors.push(mirror);
            }
        }
        Ok(())
    }

    /// Returns the programs that are to be asked for credentials besides the auth files.
    pub fn credential_helpers(&self) -> impl Iterator<Item = &str> {
        self.helpers.iter().map(String::as_str).filter(|helper| *helper != AUTH_FILES)
    }

    /// Returns the rule that applies to a name: the most specific one.
    fn rule_of(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().filter(|rule| rule.matches(name)).max_by_key(|rule| rule.prefix.len())
    }

    /// Returns the places to look for an image: its mirrors in order, then its own place.
    pub fn sources(&self, reference: &Reference) -> Result<Vec<Source>, Error> {
        let name = reference.name();
        let Some(rule) = self.rule_of(&name) else {
            return Ok(vec![Source { reference: reference.clone(), insecure: false }]);
        };
        let by_digest = reference.digest().is_some();
        let wanted = |mirror: &&Mirror| match mirror.pulls {
            Pulls::All => by_digest || !rule.digest_only,
            Pulls::DigestOnly => by_digest,
            Pulls::TagOnly => !by_digest,
        };
        let mut sources = Vec::new();
        for mirror in rule.mirrors.iter().filter(wanted) {
            sources.push(Source { reference: rule.moved(reference, &mirror.location)?, insecure: mirror.insecure });
        }
        if !rule.blocked {
            sources.push(rule.own(reference)?);
        }
        if sources.is_empty() {
            return Err(Error::Blocked { subject: reference.to_string(), registry: rule.prefix.clone() });
        }
        Ok(sources)
    }

    /// Returns the one place that an image is written to: its own registry, never a mirror.
    pub fn own(&self, reference: &Reference) -> Result<Source, Error> {
        match self.rule_of(&reference.name()) {
            Some(rule) => rule.own(reference),
            None => Ok(Source { reference: reference.clone(), insecure: false }),
        }
    }
}

impl Rule {
    fn own(&self, reference: &Reference) -> Result<Source, Error> {
        if self.blocked {
            return Err(Error::Blocked { subject: reference.to_string(), registry: self.prefix.clone() });
        }
        Ok(Source { reference: self.moved(reference, &self.location)?, insecure: self.insecure })
    }

    fn plain(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            location: prefix.to_owned(),
            insecure: false,
            blocked: false,
            digest_only: false,
            mirrors: Vec::new(),
        }
    }

    fn read(table: &Table) -> Result<Self, InvalidSetting> {
        let (prefix, location) = (text(table, "prefix")?, text(table, "location")?);
        let prefix =
            prefix.or_else(|| location.clone()).ok_or_else(|| InvalidSetting("a registry needs a location or a prefix".to_owned()))?;
        if location.is_none() && prefix.starts_with("*.") && text(table, "prefix")?.is_none() {
            return Err(InvalidSetting(format!("registry {prefix}: a wildcard needs to be the prefix")));
        }
        for place in location.iter().chain([&prefix]) {
            if place.contains("://") {
                return Err(InvalidSetting(format!("registry {place}: a location has no scheme; write the host and the path alone")));
            }
        }
        if let Some(rest) = prefix.strip_prefix('*')
            && (!rest.starts_with('.') || rest.contains(['*', '/', ':', '@']))
        {
            return Err(InvalidSetting(format!("registry {prefix}: a wildcard stands for the first part of a host, as in *.example.com")));
        }
        let mirrors = tables(table, "mirror")?.into_iter().map(Mirror::read).collect::<Result<_, _>>()?;
        Ok(Self {
            location: location.unwrap_or_else(|| prefix.clone()),
            prefix,
            insecure: flag(table, "insecure")?,
            blocked: flag(table, "blocked")?,
            digest_only: flag(table, "mirror-by-digest-only")?,
            mirrors,
        })
    }

    /// Returns true if the image's name begins with the prefix at a boundary; `*.example.com` matches every host below.
    fn matches(&self, name: &str) -> bool {
        if let Some(domain) = self.prefix.strip_prefix('*') {
            return name.split(['/', ':']).next().is_some_and(|host| host.ends_with(domain));
        }
        name.strip_prefix(&self.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
    }

    /// Returns the image below another location in place of the prefix.
    fn moved(&self, reference: &Reference, location: &str) -> Result<Reference, Error> {
        if self.prefix.starts_with('*') && location == self.prefix {
            return Ok(reference.clone());
        }
        let name = reference.name();
        let rest =
            if self.prefix.starts_with('*') { name.split_once('/').map_or("", |(_, rest)| rest) } else { &name[self.prefix.len()..] };
        let moved = format!("{}/{}", location.trim_end_matches('/'), rest.trim_start_matches('/'));
        let moved = moved.trim_end_matches('/');
        let (registry, repository) = moved.split_once('/').ok_or_else(|| Error::Configuration {
            subject: "registries.conf".to_owned(),
            problem: format!("location {location:?} leaves no repository for {reference}"),
        })?;
        let moved = reference.moved(registry, repository);
        // Whatever a file contains, only a host and a repository get into a request.
        Reference::parse(&moved.to_string()).map_err(|error| Error::Configuration {
            subject: "registries.conf".to_owned(),
            problem: format!("location {location:?} makes no reference of {reference}: {error}"),
        })
    }
}

impl Mirror {
    fn read(table: &Table) -> Result<Self, InvalidSetting> {
        let location = text(table, "location")?.ok_or_else(|| InvalidSetting("a mirror needs a location".to_owned()))?;
        let pulls = match text(table, "pull-from-mirror")?.as_deref() {
            None | Some("all" | "") => Pulls::All,
            Some("digest-only") => Pulls::DigestOnly,
            Some("tag-only") => Pulls::TagOnly,
            Some(other) => {
                return Err(InvalidSetting(format!(
                    "mirror {location}: pull-from-mirror is {other:?}, expected all, digest-only or tag-only"
                )));
            }
        };
        if location.contains("://") {
            return Err(InvalidSetting(format!("mirror {location}: a location has no scheme; write the host and the path alone")));
        }
        Ok(Self { location, insecure: flag(table, "insecure")?, pulls })
    }
}

pub(crate) fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, InvalidSetting> {
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(Item::ArrayOfTables(list)) => Ok(list.iter().collect()),
        Some(_) => Err(InvalidSetting(format!("{key}: expected [[{key}]] tables"))),
    }
}

pub(crate) fn text(table: &Table, key: &str) -> Result<Option<String>, InvalidSetting> {
    match table.get(key) {
        None => Ok(None),
        Some(item) => item.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| InvalidSetting(format!("{key}: expected text"))),
    }
}

/// Returns a list of texts; `None` when it is absent.
pub(crate) fn texts(table: &Table, key: &str) -> Result<Option<Vec<String>>, InvalidSetting> {
    let refuse = || InvalidSetting(format!("{key}: expected a list of texts"));
    let Some(item) = table.get(key) else { return Ok(None) };
    let list = item.as_array().ok_or_else(refuse)?;
    list.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(refuse)).collect::<Result<_, _>>().map(Some)
}

fn flag(table: &Table, key: &str) -> Result<bool, InvalidSetting> {
    match table.get(key) {
        None => Ok(false),
        Some(item) => item.as_bool().ok_or_else(|| InvalidSetting(format!("{key}: expected true or false"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const CONF: &str = r#"
unqualified-search-registries = ["docker.io"]

[[registry]]
prefix = "quay.io"
location = "quay.io"

  [[registry.mirror]]
  location = "mirror.example.com/quay"
  pull-from-mirror = "digest-only"

  [[registry.mirror]]
  location = "tags.example.com"
  insecure = true
  pull-from-mirror = "tag-only"

[[registry]]
location = "quay.io/secret"
blocked = true

[[registry]]
prefix = "*.corp.example"
insecure = true
"#;

    /// OLM1-GEN-12, OLM1-DISC-01: mirrors by digest and by tag, the longest prefix, blocked and insecure registries.
    #[test]
    fn mirrors_come_before_the_registry() {
        let registries = Registries::parse("registries.conf", CONF).unwrap();
        let sources = |text: &str| -> Vec<String> {
            let sources = registries.sources(&Reference::parse(text).unwrap()).unwrap();
            sources.iter().map(|source| format!("{}{}", source.reference, if source.insecure { " insecure" } else { "" })).collect()
        };
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(
            sources(&format!("quay.io/org/a@{digest}")),
            [format!("mirror.example.com/quay/org/a@{digest}"), format!("quay.io/org/a@{digest}")]
        );
        assert_eq!(sources("quay.io/org/a:1"), ["tags.example.com/org/a:1 insecure", "quay.io/org/a:1"]);
        assert_eq!(sources("quay.io.evil.com/a:1"), ["quay.io.evil.com/a:1"]);
        assert_eq!(sources("hub.corp.example:5000/a:1"), ["hub.corp.example:5000/a:1 insecure"]);
        let blocked = registries.sources(&Reference::parse("quay.io/secret/a:1").unwrap()).unwrap_err();
        assert_eq!(blocked.to_string(), "quay.io/secret/a:1: registry quay.io/secret is blocked by registries.conf");
        // Mirrors are for reading: what is written goes to its own registry, or nowhere.
        let own = |text: &str| registries.own(&Reference::parse(text).unwrap()).map(|place| place.reference.to_string());
        assert_eq!(own("quay.io/a/b:1").unwrap(), "quay.io/a/b:1");
        let mirrored =
            Registries::parse("r", "[[registry]]\nprefix = \"x.example\"\nblocked = true\n[[registry.mirror]]\nlocation = \"m.example\"\n");
        assert!(matches!(mirrored.unwrap().own(&Reference::parse("x.example/a:1").unwrap()), Err(Error::Blocked { .. })));
    }

    /// OLM1-GEN-14, OLM1-DISC-02: rules for a part of a registry keep what is said of the whole, and so do mirrors.
    #[test]
    fn added_mirrors_keep_what_is_said_of_their_registries() {
        let mut registries = Registries::parse("registries.conf", CONF).unwrap();
        registries.add_mirrors("quay.io/secret/part", &["hub.corp.example/m", "m.example"], By::Tag, false).unwrap();
        let sources = registries.sources(&Reference::parse("quay.io/secret/part/a:1").unwrap()).unwrap();
        let sources: Vec<(String, bool)> = sources.into_iter().map(|source| (source.reference.to_string(), source.insecure)).collect();
        assert_eq!(sources, [("hub.corp.example/m/a:1".to_owned(), true), ("m.example/a:1".to_owned(), false)]);
        registries.add_mirrors("hub.corp.example/o", &["m.example"], By::Tag, false).unwrap();
        let sources = registries.sources(&Reference::parse("hub.corp.example/o/a:1").unwrap()).unwrap();
        assert_eq!(sources.iter().map(|source| source.insecure).collect::<Vec<_>>(), [false, true]);
        registries.rules.resize(MAX_RULES, Rule::plain("x.example"));
        let refused = registries.add_mirrors("y.example", &["m.example"], By::Tag, false).unwrap_err();
        assert_eq!(refused.to_string(), "y.example: there are rules for 10000 registries already");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (text, problem) in [
            ("[[registry]]\ninsecure = true\n", "a registry needs a location or a prefix"),
            ("[[registry]]\nlocation = 5\n", "location: expected text"),
            ("[registries.search]\nregistries = []\n", "version 1 format"),
            ("[[registry]\n", "TOML parse error"),
        ] {
            let error = Registries::parse("/etc/containers/registries.conf", text).unwrap_err().to_string();
            assert!(error.starts_with("/etc/containers/registries.conf: ") && error.contains(problem), "{error}");
        }
    }
}
