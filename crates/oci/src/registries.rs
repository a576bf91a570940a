//! `registries.conf`: mirrors, insecure and blocked registries (the version 2 format of the container tools).

use toml_edit::{Document, Item, Table};

use crate::error::Error;
use crate::reference::Reference;

/// Rules about registries; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registries(Vec<Rule>);

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
    /// Whether unverified TLS and plain HTTP are allowed.
    pub insecure: bool,
}

impl Registries {
    /// Reads the text of a `registries.conf`; `subject` names it in errors.
    pub fn parse(subject: &str, text: &str) -> Result<Self, Error> {
        let refuse = |problem: String| Error::Configuration { subject: subject.to_owned(), problem };
        let document = Document::parse(text).map_err(|error| refuse(error.to_string().trim_end().to_owned()))?;
        if document.get("registries").is_some() {
            return Err(refuse("version 1 format ([registries.search]) is not supported; use [[registry]] tables".to_owned()));
        }
        let tables = tables(document.as_table(), "registry").map_err(&refuse)?;
        tables.into_iter().map(Rule::read).collect::<Result<_, _>>().map(Self).map_err(refuse)
    }

    /// Where to look for an image: its mirrors in order, then its own place.
    pub fn sources(&self, reference: &Reference) -> Result<Vec<Source>, Error> {
        let name = reference.name();
        let Some(rule) = self.0.iter().filter(|rule| rule.matches(&name)).max_by_key(|rule| rule.prefix.len()) else {
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
            sources.push(Source { reference: rule.moved(reference, &rule.location)?, insecure: rule.insecure });
        }
        if sources.is_empty() {
            return Err(Error::Blocked { subject: reference.to_string(), registry: rule.prefix.clone() });
        }
        Ok(sources)
    }
}

impl Rule {
    fn read(table: &Table) -> Result<Self, String> {
        let (prefix, location) = (text(table, "prefix")?, text(table, "location")?);
        let prefix = prefix.or_else(|| location.clone()).ok_or("a registry needs a location or a prefix")?;
        if location.is_none() && prefix.starts_with("*.") && text(table, "prefix")?.is_none() {
            return Err(format!("registry {prefix}: a wildcard needs to be the prefix"));
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

    /// Whether the image's name begins with the prefix at a boundary; `*.example.com` takes in every host below.
    fn matches(&self, name: &str) -> bool {
        if let Some(domain) = self.prefix.strip_prefix('*') {
            return name.split(['/', ':']).next().is_some_and(|host| host.ends_with(domain));
        }
        name.strip_prefix(&self.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
    }

    /// The image below another location in place of the prefix.
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
        Ok(reference.moved(registry, repository))
    }
}

impl Mirror {
    fn read(table: &Table) -> Result<Self, String> {
        let location = text(table, "location")?.ok_or("a mirror needs a location")?;
        let pulls = match text(table, "pull-from-mirror")?.as_deref() {
            None | Some("all" | "") => Pulls::All,
            Some("digest-only") => Pulls::DigestOnly,
            Some("tag-only") => Pulls::TagOnly,
            Some(other) => return Err(format!("mirror {location}: pull-from-mirror is {other:?}, expected all, digest-only or tag-only")),
        };
        Ok(Self { location, insecure: flag(table, "insecure")?, pulls })
    }
}

fn tables<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>, String> {
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(Item::ArrayOfTables(list)) => Ok(list.iter().collect()),
        Some(_) => Err(format!("{key}: expected [[{key}]] tables")),
    }
}

fn text(table: &Table, key: &str) -> Result<Option<String>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(item) => item.as_str().map(|text| Some(text.to_owned())).ok_or_else(|| format!("{key}: expected text")),
    }
}

fn flag(table: &Table, key: &str) -> Result<bool, String> {
    match table.get(key) {
        None => Ok(false),
        Some(item) => item.as_bool().ok_or_else(|| format!("{key}: expected true or false")),
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
