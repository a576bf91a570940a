//! The differential tester: random sequences of requests, played on kube-apiserver and on `mainstay up`, compared, shrunk and kept: `make differential`.
//!
//! ```text
//!   seed ─ sequences ─▶ scenario ─▶ kube-apiserver ─ record ─▶ transcript ─▶ mainstay up ─ compare ─▶ difference
//!                                                                                                       │ shrink
//!                                                                                     smallest transcript ─▶ --out
//! ```
//!
//! The sweep comes first: every kind with every verb, subresource and type of patch and answer, once. What is kept has the format of the
//! recorded scenarios, and `tests/replay.rs` plays it once it is equal.
#![allow(clippy::needless_pass_by_value, reason = "JSON is made in place and given away")]
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod compare;
mod custom;
mod dice;
mod hostile;
mod known;
mod particular;
mod requests;
mod sequences;
mod served;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use futures::stream::{self, StreamExt as _};
use mainstay_e2e::replay::{self, Difference, Json, Target};
use mainstay_e2e::{Cluster, Options};

use compare::{Outcome, Pair, signature};
use known::Known;

const USAGE: &str = "usage: differential --reference KUBECONFIG (--mainstay PROGRAM | --kubeconfig FILE) [--seed NUMBER] [--sequences NUMBER] [--jobs NUMBER] [--only TEXT] [--shown NUMBER] [--out FOLDER]

Play random sequences of requests on kube-apiserver (--reference) and on `mainstay up`, and show where they differ, the most frequent differences first.
--sequences is the number by chance beside the sweep (500); --only keeps sequences whose name contains the text; --shown is the number of
differences that are shrunk and shown whole (30); --out keeps those as recordings.
Exit code 1 when a difference is not named in known.yaml.

Examples:
  scripts/kube-apiserver differential target/debug/differential --mainstay target/debug/mainstay --sequences 200
  differential --reference kubeconfig --kubeconfig other --only sweep/pods";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(());
    }
    let mut options = HashMap::new();
    for pair in arguments.chunks(2) {
        match pair {
            [name, value]
                if matches!(
                    name.as_str(),
                    "--reference" | "--mainstay" | "--kubeconfig" | "--seed" | "--sequences" | "--jobs" | "--only" | "--shown" | "--out"
                ) =>
            {
                options.insert(name.as_str(), value.as_str());
            }
            _ => bail!(USAGE),
        }
    }
    let number =
        |name: &str, otherwise: u64| options.get(name).map_or(Ok(otherwise), |text| text.parse().with_context(|| format!("{name} {text}")));
    let reference = Target::from_kubeconfig(Path::new(options.get("--reference").context(USAGE)?), 1.0)?;
    let embedded = options.get("--mainstay").map(|program| {
        let binary = std::fs::canonicalize(program).with_context(|| format!("{program} is not there"))?;
        anyhow::Ok(Cluster::with(&Options { arguments: &["--components", "none"], binary: Some(&binary), ..Options::default() }))
    });
    let embedded = embedded.transpose()?;
    let kubeconfig = match (&embedded, options.get("--kubeconfig")) {
        (Some(cluster), _) => cluster.kubeconfig().to_owned(),
        (None, Some(file)) => Path::new(file).to_owned(),
        (None, None) => bail!(USAGE),
    };
    let pair = Pair { reference, ours: Target::from_kubeconfig(&kubeconfig, 1.0)?, known: Known::read()? };
    for target in [&pair.reference, &pair.ours] {
        // No controller fills namespaces on either side.
        target.fills_namespaces.store(false, Ordering::Relaxed);
    }
    let batch = Batch {
        seed: number("--seed", 1)?,
        sequences: number("--sequences", 500)?,
        jobs: usize::try_from(number("--jobs", 6)?)?,
        only: options.get("--only").copied().unwrap_or_default(),
        shown: usize::try_from(number("--shown", 30)?)?,
        out: options.get("--out").map(Path::new),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let differences = runtime.block_on(batch.run(&pair))?;
    drop(embedded);
    if differences > 0 { std::process::exit(1) } else { Ok(()) }
}

/// The sequences that are played.
struct Batch<'a> {
    seed: u64,
    sequences: u64,
    jobs: usize,
    only: &'a str,
    shown: usize,
    out: Option<&'a Path>,
}

impl Batch<'_> {
    /// Plays everything, shows the differences; how many sequences have one that is not named.
    async fn run(&self, pair: &Pair) -> Result<usize> {
        let resources = served::resources(&pair.reference).await?;
        let sweep = resources.iter().flat_map(sequences::sweep);
        let chance =
            (0..self.sequences).map(|number| sequences::by_chance(self.seed.wrapping_mul(1_000_000).wrapping_add(number), &resources));
        let scenarios = sweep.chain(chance).map(|scenario| served::as_json(&scenario)).collect::<Result<Vec<Json>>>()?;
        let scenarios: Vec<Json> = scenarios.into_iter().filter(|scenario| replay::name(scenario).contains(self.only)).collect();
        eprintln!("differential: {} sequences over {} resources, seed {}", scenarios.len(), resources.len(), self.seed);
        let played = stream::iter(&scenarios).map(|scenario| async move { (replay::name(scenario).to_owned(), pair.play(scenario).await) });
        let mut played = played.buffer_unordered(self.jobs.max(1));
        let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
        let mut named: BTreeMap<String, usize> = BTreeMap::new();
        let mut found: BTreeMap<String, Vec<(String, Json, Difference)>> = BTreeMap::new();
        while let Some((name, outcome)) = played.next().await {
            let count = counts.entry(name.split('/').next().unwrap_or_default().to_owned()).or_default();
            match outcome {
                Ok(Outcome::Equal(reasons)) => {
                    count[0] += 1;
                    for reason in reasons {
                        *named.entry(reason).or_default() += 1;
                    }
                }
                Ok(Outcome::Unstable) => count[1] += 1,
                Ok(Outcome::Differs(recorded, differences)) => {
                    count[2] += 1;
                    let signed: BTreeMap<String, Difference> = differences.into_iter().rev().map(|one| (signature(&one), one)).collect();
                    for (signature, difference) in signed {
                        found.entry(signature).or_default().push((name.clone(), recorded.clone(), difference));
                    }
                }
                Err(error) => bail!("{name}: {error:#}"),
            }
        }
        for (reason, times) in &named {
            println!("named, {times} times: {reason}");
        }
        let mut sum = [0; 3];
        for (topic, count) in &counts {
            println!("{topic}: {} equal, {} unstable in the reference, {} differ", count[0], count[1], count[2]);
            (0..3).for_each(|index| sum[index] += count[index]);
        }
        let counted = (sum[0] + sum[2]).max(1);
        println!("{} of {counted} sequences are equal ({:.1} %)", sum[0], sum[0] as f64 * 100.0 / counted as f64);
        let mut ordered: Vec<_> = found.into_iter().collect();
        ordered.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
        for (signature, all) in &ordered {
            println!("{} x {signature}", all.len());
        }
        for (signature, all) in ordered.iter().take(self.shown) {
            println!("{} x {signature}", all.len());
            if let Some((name, recorded, difference)) = all.first() {
                self.show(pair, name, recorded, difference).await?;
            }
        }
        Ok(sum[2])
    }

    async fn show(&self, pair: &Pair, name: &str, recorded: &Json, difference: &Difference) -> Result<()> {
        let (small, difference) = pair.shrink(recorded.clone(), difference.clone()).await?;
        println!("    {name}, step {}: {}", difference.step, difference.request);
        for step in replay::steps(&small) {
            let mut shown = String::new();
            for (part, value) in step.members().iter().filter(|(part, _)| part != "answer") {
                shown.extend([" ", part.as_str(), "=", &value.to_string()]);
            }
            println!("      {}", shown.trim_start().chars().take(900).collect::<String>());
        }
        let text = |value: &Json| value.to_string().chars().take(1200).collect::<String>();
        println!("    at {}\n    upstream {}\n    mainstay {}", difference.pointer, text(&difference.wanted), text(&difference.got));
        if let Some(folder) = self.out {
            let file = folder.join(format!("{name}.json"));
            std::fs::create_dir_all(file.parent().unwrap_or(folder))?;
            std::fs::write(&file, format!("{:#}\n", serde_json::from_str::<serde_json::Value>(&small.to_string())?))
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
        Ok(())
    }
}
