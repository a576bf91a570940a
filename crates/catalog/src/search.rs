//! Search for packages by name, title, provided kinds, keywords or description.
//!
//! Every word must be found in some field; the fields decide the order. The JSON shape (`mainstay catalog search --catalog`):
//!
//! ```text
//! [{"package", "displayName", "provider", "defaultChannel", "channels": [], "version", "deprecated", "summary", "score",
//!   "matches": [{"field": "name" | "displayName" | "kind" | "keyword" | "category" | "provider" | "summary" | "description",
//!                "value"}]}]
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::model::SCHEMA_PACKAGE;
use crate::parts::Parts;
use crate::properties::{Facts, provided};
use crate::reach::Updates;

/// The field in which a word was found, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Field {
    /// The name of the package.
    Name,
    /// Its display name.
    DisplayName,
    /// The kind of an API that it provides.
    Kind,
    /// A keyword.
    Keyword,
    /// A category.
    Category,
    /// Its provider.
    Provider,
    /// Its description in one line.
    Summary,
    /// Its description.
    Description,
}

impl Field {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::DisplayName => "displayName",
            Self::Kind => "kind",
            Self::Keyword => "keyword",
            Self::Category => "category",
            Self::Provider => "provider",
            Self::Summary => "summary",
            Self::Description => "description",
        }
    }

    fn weight(self) -> u32 {
        match self {
            Self::Name => 100,
            Self::DisplayName => 80,
            Self::Kind => 70,
            Self::Keyword => 50,
            Self::Category => 30,
            Self::Provider => 25,
            Self::Summary => 20,
            Self::Description => 10,
        }
    }
}

/// A field in which a word was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Match {
    /// The field.
    pub field: Field,
    /// Its value; of a long text the part around the word.
    pub value: String,
}

/// A package that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Its name.
    pub package: String,
    /// Its display name.
    pub display_name: String,
    /// Its provider.
    pub provider: String,
    /// Its default channel.
    pub default_channel: String,
    /// Its channels.
    pub channels: Vec<String>,
    /// The version at the head of its default channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The message of its deprecation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<String>,
    /// Its description in a line.
    pub summary: String,
    /// The quality of the match; higher is better.
    pub score: u32,
    /// The fields in which the words were found.
    pub matches: Vec<Match>,
}

/// Packages in which every word of the text is found, the best first. An empty text finds all, by name.
pub fn search(packages: &BTreeMap<&str, Parts<'_>>, text: &str) -> Vec<Found> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let mut found: Vec<Found> = packages.iter().filter_map(|(name, parts)| Page::of(name, parts).find(&words)).collect();
    found.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.package.cmp(&b.package)));
    found
}

/// The searched texts of a package.
struct Page {
    found: Found,
    texts: Vec<(Field, String)>,
}

impl Page {
    fn of(name: &str, parts: &Parts<'_>) -> Self {
        let versions = parts.versions();
        let heads: Vec<(&str, usize, Updates<'_>)> = parts
            .channels
            .iter()
            .filter_map(|channel| {
                let updates = Updates::of(channel, &versions);
                Some((channel.name.as_str(), updates.head()?, updates))
            })
            .collect();
        let default = heads.iter().find(|(channel, ..)| Some(*channel) == parts.default_channel()).or_else(|| heads.first());
        let head = default.and_then(|(_, head, updates)| parts.bundle(updates.entry(*head).name.as_str()));
        // A head whose metadata cannot be read is still found by its name; `lint` reports it.
        let facts = head.and_then(|bundle| Facts::of(bundle).ok().flatten()).unwrap_or_default();
        let annotation = |key: &str| facts.annotation(key).unwrap_or_default().trim().to_owned();
        let description = parts.package.map(|package| package.description.clone()).unwrap_or_default();
        let deprecated =
            parts.deprecated().into_iter().find(|(reference, _)| reference.schema == SCHEMA_PACKAGE).map(|(_, message)| message);
        let kinds: BTreeSet<String> = heads
            .iter()
            .filter_map(|(_, head, updates)| parts.bundle(updates.entry(*head).name.as_str()))
            .flat_map(provided)
            .map(|api| api.kind)
            .collect();
        let mut texts = vec![
            (Field::Name, name.to_owned()),
            (Field::DisplayName, facts.display_name.clone()),
            (Field::Provider, facts.provider.name.clone()),
            (Field::Summary, annotation("description")),
            (Field::Description, facts.description.clone()),
            (Field::Description, description),
        ];
        texts.extend(kinds.into_iter().map(|kind| (Field::Kind, kind)));
        texts.extend(facts.keywords.iter().map(|keyword| (Field::Keyword, keyword.clone())));
        texts.extend(annotation("categories").split(',').map(|category| (Field::Category, category.trim().to_owned())));
        let found = Found {
            package: name.to_owned(),
            display_name: facts.display_name.clone(),
            provider: facts.provider.name.clone(),
            default_channel: parts.default_channel().unwrap_or_default().to_owned(),
            channels: parts.channels.iter().map(|channel| channel.name.to_string()).collect(),
            version: default.and_then(|(_, head, updates)| updates.version(*head)).map(ToString::to_string),
            deprecated: deprecated.map(str::to_owned),
            summary: annotation("description"),
            score: 0,
            matches: Vec::new(),
        };
        Self { found, texts }
    }

    /// Returns the package with its matches, if every word matches.
    fn find(mut self, words: &[String]) -> Option<Found> {
        let mut matches = BTreeSet::new();
        for word in words {
            let mut best = 0;
            for (field, text) in &self.texts {
                let Some((fit, value)) = fit(*field, text, word) else { continue };
                best = best.max(field.weight() * fit);
                matches.insert(Match { field: *field, value });
            }
            if best == 0 {
                return None;
            }
            self.found.score += best;
        }
        self.found.matches = matches.into_iter().collect();
        Some(self.found)
    }
}

/// The quality of a match: 4 the whole text, 3 a word of it, 2 the beginning of a word, 1 a part; and the text to show.
fn fit(field: Field, text: &str, word: &str) -> Option<(u32, String)> {
    let lower = text.to_lowercase();
    let at = lower.find(word)?;
    let value = match field {
        Field::Summary | Field::Description => around(&lower, text, at, word.len()),
        _ => text.to_owned(),
    };
    if lower == word {
        return Some((4, value));
    }
    let boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let fits = lower.match_indices(word).map(|(at, _)| {
        let (before, after) = (lower[..at].chars().next_back(), lower[at + word.len()..].chars().next());
        match (boundary(before), boundary(after)) {
            (true, true) => 3,
            (true, false) => 2,
            _ => 1,
        }
    });
    Some((fits.max().unwrap_or(1), value))
}

/// The part of a long text around a match, on one line.
fn around(lower: &str, text: &str, at: usize, length: usize) -> String {
    const BESIDE: usize = 40;
    // Lower case may be longer or shorter than the text; then the lower-case text is shown.
    let text = if lower.len() == text.len() { text } else { lower };
    let start = (0..=at.saturating_sub(BESIDE)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = ((at + length + BESIDE).min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let part = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    format!("{before}{part}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-05: how well a word fits, and what is shown of a long text.
    #[test]
    fn words_fit() {
        for (field, text, word, expected) in [
            (Field::Kind, "Kafka", "kafka", Some(4)),
            (Field::Kind, "KafkaTopic", "kafka", Some(2)),
            (Field::Name, "strimzi-kafka-operator", "kafka", Some(3)),
            (Field::Name, "akafkab", "kafka", Some(1)),
            (Field::Name, "kafk", "kafka", None),
        ] {
            assert_eq!(fit(field, text, word).map(|(fit, _)| fit), expected, "{text}");
        }
        let long = format!("{} needle\n {}", "a ".repeat(60), "b ".repeat(60));
        let value = fit(Field::Description, &long, "needle").map(|(_, value)| value).unwrap_or_default();
        assert!(value.starts_with('…') && value.ends_with('…') && value.contains("a needle b"), "{value}");
        // A text whose lower case has another length.
        assert!(fit(Field::Description, "İ needle", "needle").is_some());
    }
}
