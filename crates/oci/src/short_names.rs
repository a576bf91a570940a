//! Names without a registry, as people type them, resolved by an alias or by the registries that are to be searched.
//!
//! A name that could mean several images is never guessed: an image that a stranger registers under it elsewhere must not be pulled instead.

use std::collections::BTreeMap;

use toml_edit::Table;

use crate::error::Error;
use crate::reference::Reference;
use crate::registries::{InvalidSetting, Registries, texts};

/// Meanings of short names; Docker Hub when nothing is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShortNames {
    /// `unqualified-search-registries`, if it is set.
    search: Option<Vec<String>>,
    aliases: BTreeMap<String, String>,
}

impl ShortNames {
    pub(crate) fn read(table: &Table) -> Result<Self, InvalidSetting> {
        let mut aliases = BTreeMap::new();
        if let Some(item) = table.get("aliases") {
            for (name, value) in item.as_table_like().ok_or_else(|| InvalidSetting("aliases: expected a table".to_owned()))?.iter() {
                let value = value.as_str().ok_or_else(|| InvalidSetting(format!("aliases.{name}: expected text")))?;
                // An empty value removes an alias of an earlier file.
                if !value.is_empty() {
                    Reference::parse(value).map_err(|error| InvalidSetting(format!("aliases.{name}: {error}")))?;
                }
                aliases.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Self { search: texts(table, "unqualified-search-registries")?, aliases })
    }

    pub(crate) fn extend(&mut self, later: Self) {
        self.aliases.extend(later.aliases);
        self.search = later.search.or(self.search.take());
    }
}

impl Registries {
    /// Returns the image that a text means, with or without a registry. If nothing is configured, a name without one belongs to Docker Hub.
    pub fn reference(&self, text: &str) -> Result<Reference, Error> {
        let familiar = Reference::parse_familiar(text)?;
        if has_registry(text) {
            return Ok(familiar);
        }
        let refuse = |problem: String| Error::InvalidReference { reference: text.to_owned(), problem };
        let name = text.split(['@']).next().unwrap_or(text);
        let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
        if let Some(alias) = self.short_names.aliases.get(name).filter(|alias| !alias.is_empty()) {
            let place = Reference::parse(alias)?;
            return Ok(familiar.moved(place.registry(), place.repository()));
        }
        let Some(search) = &self.short_names.search else { return Ok(familiar) };
        match search.as_slice() {
            [] => Err(refuse("the name has no registry, no alias means it, and registries.conf names no registry to search".to_owned())),
            [only] => Reference::parse_familiar(&format!("{only}/{text}")),
            several => {
                let candidates: Vec<String> = several.iter().map(|registry| format!("{registry}/{text}")).collect();
                Err(refuse(format!(
                    "the name has no registry, and could mean any of {}; write the one that is meant",
                    candidates.join(", ")
                )))
            }
        }
    }
}

/// Returns true if the part before the first slash is a host.
fn has_registry(text: &str) -> bool {
    text.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost" || host.chars().any(char::is_uppercase))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn meant(conf: &str, text: &str) -> String {
        match Registries::parse("registries.conf", conf).unwrap().reference(text) {
            Ok(reference) => reference.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// OLM1-GEN-12: short names go by alias, then by the registries to search, and are never guessed.
    #[test]
    fn short_names() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(meant("", "busybox"), "docker.io/library/busybox");
        let one = "unqualified-search-registries = ['quay.io']\n[aliases]\n'org/tool' = 'reg.example/tools/tool'\n";
        assert_eq!(meant(one, "busybox:1"), "quay.io/busybox:1");
        assert_eq!(meant(one, &format!("org/tool@{digest}")), format!("reg.example/tools/tool@{digest}"));
        assert_eq!(meant(one, "org/tool:2"), "reg.example/tools/tool:2");
        assert_eq!(meant(one, "localhost/tool:2"), "localhost/tool:2");
        let none = meant("unqualified-search-registries = []\n", "busybox");
        assert!(none.ends_with("registries.conf names no registry to search"), "{none}");
        let two = meant("unqualified-search-registries = ['a.example', 'b.example']\n", "busybox");
        assert!(two.contains("could mean any of a.example/busybox, b.example/busybox"), "{two}");
    }

    /// OLM1-GEN-12: files of registries.conf.d override what came before, rule by rule.
    #[test]
    fn later_files_override() {
        let parse = |text: &str| Registries::parse("conf", text).unwrap();
        let mut all = parse("unqualified-search-registries = ['a.example']\n[[registry]]\nlocation = 'x.example'\nblocked = true\n");
        all.extend(parse("[[registry]]\nlocation = 'x.example'\ninsecure = true\n[aliases]\n'tool' = 'c.example/tool'\n"));
        assert_eq!(all.reference("tool").unwrap().to_string(), "c.example/tool");
        assert_eq!(all.reference("other").unwrap().to_string(), "a.example/other");
        let sources = all.sources(&Reference::parse("x.example/a:1").unwrap()).unwrap();
        assert!(sources[0].insecure);
    }
}
