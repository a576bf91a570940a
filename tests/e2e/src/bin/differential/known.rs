//! Differences that `docs/kubernetes-differences.md` names: they are counted, and are no failures.

use anyhow::{Context as _, Result, anyhow};
use mainstay_e2e::replay::Difference;
use regex::Regex;

/// One named difference: all patterns that are given must be found.
struct Named {
    reason: String,
    request: Option<Regex>,
    pointer: Option<Regex>,
    wanted: Option<Regex>,
    got: Option<Regex>,
}

/// The list of them.
pub struct Known(Vec<Named>);

impl Known {
    /// Reads `known.yaml`.
    pub fn read() -> Result<Self> {
        let list = mainstay_yaml::parse(include_str!("known.yaml")).map_err(|error| anyhow!("known.yaml: {error}"))?;
        let list = list.as_array().context("known.yaml is no list")?.iter().map(|one| {
            let pattern =
                |name: &str| one[name].as_str().map(|text| Regex::new(text).with_context(|| format!("known.yaml: {text}"))).transpose();
            Ok(Named {
                reason: one["reason"].as_str().context("known.yaml: an entry without a reason")?.to_owned(),
                request: pattern("request")?,
                pointer: pattern("pointer")?,
                wanted: pattern("wanted")?,
                got: pattern("got")?,
            })
        });
        Ok(Self(list.collect::<Result<_>>()?))
    }

    /// The reason of a difference that is named.
    pub fn reason(&self, difference: &Difference) -> Option<&str> {
        let found = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
        let fits = |one: &&Named| {
            found(&one.request, &difference.request)
                && found(&one.pointer, &difference.pointer)
                && found(&one.wanted, &difference.wanted.to_string())
                && found(&one.got, &difference.got.to_string())
        };
        self.0.iter().find(fits).map(|one| one.reason.as_str())
    }
}
