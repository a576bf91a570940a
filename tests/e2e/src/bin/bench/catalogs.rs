//! The commands of catalog curators on a large catalog, as a user runs them, and `opm` itself beside them (`--opm PROGRAM`).
//!
//! The catalog is made of the recorded one: copies of its packages under other names, descriptions a little longer, written as `opm render`
//! writes it: 5,656 bundles, 70 MB.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::{Bench, ROUNDS, memory, shown, time};

/// Copies of the recorded catalog that make 5,656 bundles.
const COPIES: usize = 8;
/// How often a program is asked for its memory while it runs.
const SAMPLE: Duration = Duration::from_micros(500);

/// What one run of a program took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall: Duration,
    cpu: Duration,
    /// KiB.
    peak: u64,
}

/// One command on one catalog, here and there.
pub struct Beside {
    what: String,
    ours: Cost,
    opm: Cost,
}

impl Bench {
    /// CATLG-22, CATLG-32: validating and rendering a large catalog.
    pub fn curate(&mut self) -> anyhow::Result<()> {
        let Some(recorded) = mainstay_testing::data::path("catalog-60.json.gz") else { return Ok(()) };
        let folder = tempfile::tempdir()?;
        let bundles = make(&recorded, folder.path())?;
        for (layout, files) in [("one", "one file"), ("many", "a file a package")] {
            let directory = folder.path().join(layout);
            for (command, budget, limit) in [("validate", "300 ms", 300), ("render", "400 ms", 400)] {
                let arguments = ["opm", command];
                let ours = median_cost(|| run(&self.binary, &arguments, &directory))?;
                let what = format!("`opm {command}`, catalog of {bundles} bundles, 70 MB, {files}");
                self.add(time(&what, ours.wall, budget, limit));
                self.add(memory(&format!("{what}: peak memory"), ours.peak, "45 MiB", 45));
                if let Some(opm) = &self.opm {
                    let opm = median_cost(|| run(opm, &arguments[1..], &directory))?;
                    println!("    opm itself: {} ({} CPU), {} MiB", shown(opm.wall), shown(opm.cpu), opm.peak / 1_024);
                    self.beside_opm.push(Beside { what, ours, opm });
                }
            }
        }
        self.serve_catalog(&folder.path().join("many"), bundles)
    }
}

/// The table of what `opm` took beside us.
pub fn section(rows: &[Beside]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cost = |cost: Cost| format!("{} | {} | {:.1} MiB", shown(cost.wall), shown(cost.cpu), cost.peak as f64 / 1_024.0);
    let mut text = "## Beside opm\n\nThe same command of `opm` v1.65 on the same files (`make bench OPM=PROGRAM`), medians.\n\n\
                    | what | mainstay | CPU | peak | opm | CPU | peak | times faster |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for Beside { what, ours, opm } in rows {
        let times = opm.wall.as_secs_f64() / ours.wall.as_secs_f64();
        // Writing to a string does not fail.
        let _written = writeln!(text, "| {what} | {} | {} | {times:.1} |", cost(*ours), cost(*opm));
    }
    text.push('\n');
    text
}

/// Writes the catalog twice, as `one/catalog.json` and as `many/PACKAGE/catalog.json`; gives the number of bundles.
pub fn make(recorded: &Path, folder: &Path) -> anyhow::Result<usize> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(File::open(recorded)?).read_to_string(&mut text)?;
    let blobs: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut whole = Vec::new();
    let mut bundles = 0;
    for copy in 0..COPIES {
        let mut packages: Vec<(String, Vec<u8>)> = Vec::new();
        for blob in &blobs {
            let mut blob = blob.clone();
            bundles += usize::from(blob["schema"] == "olm.bundle");
            let package = rename(&mut blob, copy);
            if packages.last().is_none_or(|(last, _)| *last != package) {
                packages.push((package, Vec::new()));
            }
            if let Some((_, out)) = packages.last_mut() {
                blob.serialize(&mut Serializer::with_formatter(&mut *out, PrettyFormatter::with_indent(b"    ")))?;
                out.push(b'\n');
            }
        }
        for (package, text) in packages {
            whole.extend_from_slice(&text);
            let directory = folder.join("many").join(&package);
            fs::create_dir_all(&directory)?;
            // The blobs of a package need not follow each other.
            let mut file = File::options().create(true).append(true).open(directory.join("catalog.json"))?;
            std::io::Write::write_all(&mut file, &text)?;
        }
    }
    fs::create_dir_all(folder.join("one"))?;
    fs::write(folder.join("one/catalog.json"), whole)?;
    Ok(bundles)
}

/// Gives the package of a blob and its bundles other names, and its description a few more words; returns the name of the package.
fn rename(blob: &mut Value, copy: usize) -> String {
    if copy > 0 {
        let mark = |name: &mut Value| {
            if let Some(text) = name.as_str().filter(|text| !text.is_empty()) {
                *name = format!("{text}-c{copy}").into();
            }
        };
        if blob["schema"] == "olm.bundle" {
            mark(&mut blob["name"]);
        }
        for entry in blob["entries"].as_array_mut().into_iter().flatten() {
            for bundle in ["name", "replaces"] {
                if entry.get(bundle).is_some() {
                    mark(&mut entry[bundle]);
                }
            }
            entry.get_mut("skips").and_then(Value::as_array_mut).into_iter().flatten().for_each(mark);
            if entry["reference"]["schema"] == "olm.bundle" {
                mark(&mut entry["reference"]["name"]);
            }
        }
    }
    let key = if blob["schema"] == "olm.package" { "name" } else { "package" };
    let name = blob[key].as_str().unwrap_or_default().to_owned();
    let name = if copy == 0 { name } else { format!("{name}-c{copy}") };
    blob[key] = name.as_str().into();
    for property in blob["properties"].as_array_mut().into_iter().flatten() {
        if property["type"] == "olm.package" {
            property["value"]["packageName"] = name.as_str().into();
        } else if property["type"] == "olm.csv.metadata" {
            let text = property["value"]["description"].as_str().unwrap_or_default().to_owned();
            property["value"]["description"] = format!("{text}\n\n{}", "An operator of this cluster. ".repeat(6)).into();
        }
    }
    name
}

fn median_cost(mut measure: impl FnMut() -> anyhow::Result<Cost>) -> anyhow::Result<Cost> {
    let mut all = (0..ROUNDS).map(|_| measure()).collect::<anyhow::Result<Vec<_>>>()?;
    all.sort_by_key(|cost| cost.wall);
    let peak = all.iter().map(|cost| cost.peak).max().unwrap_or(u64::MAX);
    Ok(Cost { peak, ..all[ROUNDS / 2] })
}

/// Runs a command on a directory; what it prints goes into a file, as in a curator's pipeline.
fn run(program: &Path, arguments: &[&str], directory: &Path) -> anyhow::Result<Cost> {
    let out = tempfile::tempfile()?;
    let begun = Instant::now();
    let mut child = Command::new(program).args(arguments).arg(directory).stdout(out).stderr(Stdio::piped()).spawn()?;
    let pid = Pid::from_child(&child);
    let mut peak = 0;
    // Until it is reaped, the process keeps its times; its memory goes when it ends, so that is asked for on the way.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(pid), ended)?.is_none() {
        peak = peak.max(mainstay_e2e::peak_memory(child.id()).unwrap_or(0));
        thread::sleep(SAMPLE);
    }
    let wall = begun.elapsed();
    let cpu = cpu_time(child.id())?;
    if !child.wait()?.success() {
        let mut text = String::new();
        child.stderr.take().context("no output")?.read_to_string(&mut text)?;
        bail!("{} {arguments:?}: {text}", program.display());
    }
    Ok(Cost { wall, cpu, peak })
}

/// User and system time of a process, in steps of a hundredth of a second.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat")))?;
    // The name in parentheses may hold blanks; user and system time are the 14th and 15th field.
    let fields = stat.rsplit_once(')').context("no process times")?.1;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
