//! Our own player of recorded answers (`../shared/data/kube-transcripts`, whose README describes the format).
//!
//! ```text
//!   transcript ─ Player ──requests──▶ server        steps, save, until, watch
//!                  │ raw answers
//!              Normaliser                           placeholders, only, ignore
//!                  │
//!              differences ─▶ Report                 a JSON pointer a step that differs
//! ```
//!
//! It is as strict as the tool beside the recordings, pointer for pointer, and plays several times faster.

mod client;
mod json;
mod normalise;
mod player;
mod pointer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::stream::{self, StreamExt as _};

use client::Session;
pub use client::Target;
pub use json::Json;
use normalise::Normaliser;
use player::Player;
pub use player::steps;
pub use pointer::differences;

/// How one scenario went.
#[derive(Debug, Clone)]
pub struct Report {
    /// TOPIC/NAME.
    pub name: String,
    /// How many steps it has, inner ones included.
    pub steps: usize,
    /// The steps whose answers differ from the recorded ones.
    pub differences: Vec<Difference>,
}

/// A difference of one step.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Which step: `2`, or `2.1` for the first inner step of a watch; `0` when the scenario could not begin.
    pub step: String,
    /// Method and path.
    pub request: String,
    /// Where in the answer, as a JSON pointer into status, headers and body.
    pub pointer: String,
    /// What was recorded there.
    pub wanted: Json,
    /// What this server said.
    pub got: Json,
}

impl Report {
    /// Whether every step has the recorded answer.
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({} of {} steps differ)", self.name, self.differences.len(), self.steps)?;
        for one in &self.differences {
            writeln!(f, "  step {}: {}\n  at {}", one.step, one.request, if one.pointer.is_empty() { "/" } else { &one.pointer })?;
            writeln!(f, "  wanted {}\n  got    {}", one.wanted, one.got)?;
        }
        Ok(())
    }
}

/// TOPIC/NAME of a transcript.
pub fn name(scenario: &Json) -> &str {
    scenario.get("name").and_then(Json::as_str).unwrap_or_default()
}

/// The transcripts below a folder, by name.
pub fn load(folder: &Path) -> Result<Vec<Json>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for topic in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let topic = topic?.path();
        if topic.is_dir() {
            files.extend(std::fs::read_dir(topic)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?);
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
        .into_iter()
        .map(|file| serde_json::from_str(&std::fs::read_to_string(&file)?).with_context(|| file.display().to_string()))
        .collect()
}

/// Plays transcripts and compares, this many at a time; those that touch what all share come last, one by one.
pub async fn check(target: &Target, scenarios: &[Json], jobs: usize) -> Vec<Report> {
    let (alone, together): (Vec<&Json>, Vec<&Json>) =
        scenarios.iter().partition(|scenario| matches!(scenario.get("alone"), Some(Json::Bool(true))));
    let mut reports: Vec<Report> =
        stream::iter(together).map(|scenario| check_steps(target, scenario, 1)).buffer_unordered(jobs).collect().await;
    for scenario in alone {
        reports.push(check_steps(target, scenario, 1).await);
    }
    reports.sort_by(|left, right| left.name.cmp(&right.name));
    reports
}

/// What may pass unseen is no pass: a scenario that hangs fails.
const SCENARIO: Duration = Duration::from_secs(300);

/// Plays one transcript and compares: up to this many differences of each step.
pub async fn check_steps(target: &Target, scenario: &Json, most: usize) -> Report {
    let mut player = Player::new(target, scenario);
    let wanted = flatten(steps(scenario), "");
    let played = tokio::time::timeout(SCENARIO, player.play()).await.context("it does not end").flatten();
    let differences = match played {
        Ok(answers) => compare(&player, scenario, &answers, &wanted, most),
        Err(error) => vec![Difference {
            step: "0".to_owned(),
            request: "make the namespace".to_owned(),
            pointer: String::new(),
            wanted: "".into(),
            got: format!("{error:#}").into(),
        }],
    };
    Report { name: name(scenario).to_owned(), steps: wanted.len(), differences }
}

/// Plays a scenario and answers it with what this server said in every step: a transcript. Inner steps hold theirs, too.
pub async fn record(target: &Target, scenario: &Json) -> Result<Json> {
    let mut player = Player::new(target, scenario);
    let answers = tokio::time::timeout(SCENARIO, player.play()).await.context("it does not end").flatten()?;
    let none = Json::Null;
    let mut normaliser = Normaliser::new(&player, scenario.get("steps").unwrap_or(&none), &answers);
    let mut transcript = scenario.clone();
    let mut normalised = Vec::new();
    fill(&mut normaliser, steps(scenario), &answers, &mut normalised);
    let recorded = with_answers(steps(scenario), &mut normalised.into_iter());
    transcript.set("steps", recorded);
    Ok(transcript)
}

/// Steps with their answers, in the order of [`flatten`].
fn with_answers(of: &[Json], answers: &mut impl Iterator<Item = Json>) -> Json {
    let answered = of.iter().map(|step| {
        let mut step = step.clone();
        step.set("answer", answers.next().unwrap_or_default());
        if step.has("steps") {
            let inner = with_answers(steps(&step), answers);
            step.set("steps", inner);
        }
        step
    });
    Json::Array(answered.collect())
}

/// One request that is no scenario: status and body of its answer.
pub async fn ask(target: &Target, step: &Json) -> Result<(u16, Json)> {
    let answer = Session::new(target).send(step).await?;
    Ok((answer.status, answer.body))
}

fn compare(player: &Player<'_>, scenario: &Json, answers: &[Json], wanted: &[(String, &Json)], most: usize) -> Vec<Difference> {
    let none = Json::Null;
    let mut normaliser = Normaliser::new(player, scenario.get("steps").unwrap_or(&none), answers);
    let mut got = Vec::new();
    fill(&mut normaliser, steps(scenario), answers, &mut got);
    let differing = wanted.iter().zip(&got).flat_map(|((label, step), got)| {
        let found = differences(step.get("answer").unwrap_or(&none), got, most).into_iter();
        found.map(|(pointer, wanted, got)| Difference { step: label.clone(), request: describe(step), pointer, wanted, got })
    });
    differing.collect()
}

/// The normalised answers in the order of [`flatten`]. Inner steps are numbered before the watch around them, as when recording.
fn fill(normaliser: &mut Normaliser<'_>, of: &[Json], answers: &[Json], got: &mut Vec<Json>) {
    for (step, answer) in of.iter().zip(answers) {
        let mut inner = Vec::new();
        fill(normaliser, steps(step), steps(answer), &mut inner);
        got.push(normaliser.normalised(step, answer));
        got.append(&mut inner);
    }
}

/// Label and step of every step; a watch comes before its inner steps, labelled 2, 2.1, 2.2 ...
fn flatten<'a>(of: &'a [Json], prefix: &str) -> Vec<(String, &'a Json)> {
    let labelled = of.iter().enumerate().flat_map(|(index, step)| {
        let label = format!("{prefix}{}", index + 1);
        let inner = flatten(steps(step), &format!("{label}."));
        std::iter::once((label, step)).chain(inner)
    });
    labelled.collect()
}

fn describe(step: &Json) -> String {
    if let Some(seconds) = step.get("sleep") {
        return format!("sleep {seconds}");
    }
    let text = |of: &Json, key: &str| of.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    match step.get("watch") {
        Some(watch) => format!("WATCH {}", text(watch, "path")),
        None => format!("{} {}", text(step, "method"), text(step, "path")),
    }
}
