//! One sequence on both servers: where they differ, and the smallest sequence that still does.

use anyhow::Result;
use mainstay_e2e::replay::{self, Difference, Json, Target};
use regex::Regex;

use crate::known::Known;

/// Both servers, and what is known to differ.
pub struct Pair {
    /// kube-apiserver.
    pub reference: Target,
    /// `mainstay up`.
    pub ours: Target,
    /// Named differences.
    pub known: Known,
}

/// The outcome of a sequence.
pub enum Outcome {
    /// Equal, but for these named differences.
    Equal(Vec<String>),
    /// The reference answers differently each time.
    Unstable,
    /// Not equal: what was recorded, and the differences that are not named, in the order of the steps.
    Differs(Json, Vec<Difference>),
}

/// The most differences of one step that are told apart.
const PER_STEP: usize = 12;

impl Pair {
    /// Plays a sequence on both.
    pub async fn play(&self, scenario: &Json) -> Result<Outcome> {
        let recorded = replay::record(&self.reference, scenario).await?;
        let mut named = Vec::new();
        let mut unnamed = Vec::new();
        for difference in replay::check_steps(&self.ours, &recorded, PER_STEP).await.differences.into_iter().flat_map(inside) {
            match self.known.reason(&difference) {
                Some(reason) => named.push(reason.to_owned()),
                None => unnamed.push(difference),
            }
        }
        if unnamed.is_empty() {
            return Ok(Outcome::Equal(named));
        }
        // The order of Go's maps and what other clients do differ from run to run: that is no difference between servers.
        let again = replay::check_steps(&self.reference, &recorded, 1).await;
        unnamed.retain(|one| !again.differences.iter().any(|other| other.step == one.step));
        Ok(if unnamed.is_empty() { Outcome::Unstable } else { Outcome::Differs(recorded, unnamed) })
    }

    /// The smallest sequence found that differs in the same way, with the reference's answers.
    pub async fn shrink(&self, recorded: Json, difference: Difference) -> Result<(Json, Difference)> {
        let wanted = signature(&difference);
        let (mut best, mut shown) = (recorded, difference);
        let end = shown.step.split('.').next().and_then(|step| step.parse::<usize>().ok()).unwrap_or_default();
        let mut steps: Vec<Json> = replay::steps(&best).iter().take(end.max(1)).map(without_answer).collect();
        let mut index = 0;
        while index < steps.len() && steps.len() > 1 {
            let mut fewer = steps.clone();
            fewer.remove(index);
            match self.same(&best, fewer.clone(), &wanted).await? {
                Some((smaller, difference)) => (steps, best, shown) = (fewer, smaller, difference),
                None => index += 1,
            }
        }
        // Then the parameters and headers of what remains.
        for index in 0..steps.len() {
            for part in ["query", "headers", "as"] {
                let names: Vec<String> =
                    steps[index].get(part).map_or(&[][..], Json::members).iter().map(|(name, _)| name.clone()).collect();
                for name in names {
                    let mut fewer = steps.clone();
                    let Some(Json::Object(members)) = fewer[index].get(part).cloned() else { continue };
                    fewer[index].set(part, Json::Object(members.into_iter().filter(|(one, _)| *one != name).collect()));
                    if let Some((smaller, difference)) = self.same(&best, fewer.clone(), &wanted).await? {
                        (steps, best, shown) = (fewer, smaller, difference);
                    }
                }
            }
        }
        Ok((best, shown))
    }

    async fn same(&self, of: &Json, steps: Vec<Json>, wanted: &str) -> Result<Option<(Json, Difference)>> {
        let mut scenario = of.clone();
        scenario.set("steps", Json::Array(steps));
        Ok(match self.play(&scenario).await? {
            Outcome::Differs(recorded, found) => found.into_iter().find(|one| signature(one) == wanted).map(|one| (recorded, one)),
            _ => None,
        })
    }
}

/// The differences within a text of YAML, where both servers answered one.
fn inside(difference: Difference) -> Vec<Difference> {
    let document = |text: &Json| {
        let text = text.as_str().filter(|text| text.contains('\n'))?;
        let value = mainstay_yaml::parse(text).ok().filter(serde_json::Value::is_object)?;
        serde_json::from_value::<Json>(value).ok()
    };
    let (Some(wanted), Some(got)) = (document(&difference.wanted), document(&difference.got)) else { return vec![difference] };
    let found = replay::differences(&wanted, &got, PER_STEP);
    if found.is_empty() {
        // The same document, written otherwise.
        return vec![difference];
    }
    let of = |(pointer, wanted, got)| Difference { pointer: format!("{}{pointer}", difference.pointer), wanted, got, ..difference.clone() };
    found.into_iter().map(of).collect()
}

fn without_answer(step: &Json) -> Json {
    let Json::Object(members) = step else { return step.clone() };
    let kept = members.iter().filter(|(name, _)| name != "answer").map(|(name, value)| {
        let value = if name == "steps" { Json::Array(value.items().iter().map(without_answer).collect()) } else { value.clone() };
        (name.clone(), value)
    });
    Json::Object(kept.collect())
}

/// The kind of a difference: what several sequences have in common.
pub fn signature(difference: &Difference) -> String {
    let general = |pattern: &str, text: &str, with: &str| {
        Regex::new(pattern).map_or_else(|_| text.to_owned(), |one| one.replace_all(text, with).into_owned())
    };
    let method = difference.request.split(' ').next().unwrap_or_default();
    let path = difference.request.rsplit('/').next().unwrap_or_default();
    let sub =
        if matches!(path, "status" | "scale" | "log" | "token" | "binding" | "eviction" | "approval" | "finalize") { path } else { "" };
    let pointer = general(r"/\d+", &difference.pointer, "/#");
    let pointer = general(r"/f:[^/]+|/k:[^/]+|/v:[^/]+", &pointer, "/f");
    let short = |value: &Json| {
        let text = general(r#"[a-z]*\.?\$\{sfx\}[-a-z.]*|\\"[^\\]*\\"|\d+"#, &value.to_string(), "_");
        text.chars().take(90).collect::<String>()
    };
    format!("{method} {sub} {pointer} | {} | {}", short(&difference.wanted), short(&difference.got))
}
