//! Requirements and the tests that prove them.
//!
//! A requirement is a bold ID at the start of a row of `docs/spec`. A test proves it when the doc comment of the test function names the ID; a result
//! is taken from the output of `cargo test`, if one is given.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use regex::Regex;

/// A test function that names requirements.
struct Test {
    name: String,
    file: PathBuf,
}

pub fn print(root: &Path, prefix: &str, results: Option<&Path>, only_holes: bool) -> anyhow::Result<()> {
    let outcomes = results.map(outcomes).transpose()?;
    let proofs = proofs(root)?;
    let (mut proven, mut holes) = (0, 0);
    for id in requirements(&root.join("docs/spec"))?.iter().filter(|id| id.starts_with(prefix)) {
        let tests = proofs.get(id).map(Vec::as_slice).unwrap_or_default();
        let result = |test: &Test| outcomes.as_ref().map_or("", |all| all.get(&test.name).map_or("did not run", String::as_str));
        let holds = tests.iter().any(|test| matches!(result(test), "" | "ok"));
        if holds {
            proven += 1;
        } else {
            holes += 1;
        }
        match (tests, only_holes) {
            ([], _) => println!("{id:<20} -"),
            (_, true) if holds => {}
            _ => {
                for test in tests {
                    println!("{id:<20} {} ({}) {}", test.name, test.file.display(), result(test));
                }
            }
        }
    }
    println!("{proven} proven, {holes} without a test");
    Ok(())
}

fn requirements(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let row = Regex::new(r"(?m)^\s*[-|]\s*\*\*([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+[a-z]?)\*\*")?;
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let text = fs::read_to_string(entry?.path())?;
        ids.extend(row.captures_iter(&text).map(|found| found[1].to_owned()));
    }
    Ok(ids)
}

fn proofs(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<Test>>> {
    let id = Regex::new(r"\b[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-\d+[a-z]?\b")?;
    let range = Regex::new(r"\b([A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*-)(\d+)\.\.(\d+)\b")?;
    let function = Regex::new(r"^\s*(?:pub )?(?:async )?fn (\w+)")?;
    let mut proofs: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for file in sources(root)? {
        let (mut named, mut is_test) = (BTreeSet::new(), false);
        for line in fs::read_to_string(&file)?.lines() {
            let text = line.trim_start();
            if let Some(comment) = text.strip_prefix("///") {
                named.extend(id.find_iter(comment).map(|found| found.as_str().to_owned()));
                for found in range.captures_iter(comment) {
                    let (from, to) = (found[2].parse::<u32>()?, found[3].parse::<u32>()?);
                    named.extend((from..=to).map(|number| format!("{}{number:0width$}", &found[1], width = found[2].len())));
                }
            } else if text.starts_with("#[") {
                is_test |= text.contains("test") && !text.contains("cfg(");
            } else if let Some(found) = function.captures(line).filter(|_| is_test) {
                let file = file.strip_prefix(root).unwrap_or(&file);
                for id in std::mem::take(&mut named) {
                    proofs.entry(id).or_default().push(Test { name: found[1].to_owned(), file: file.to_owned() });
                }
                is_test = false;
            } else if !text.is_empty() {
                named.clear();
                is_test = false;
            }
        }
    }
    Ok(proofs)
}

fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![root.join("crates"), root.join("tests"), root.join("xtask")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// `test a::b::name ... ok` lines, by the function's name; if several tests have one name, a failure of one of them counts. A test that says it
/// skipped is no proof: with `--show-output`, its output follows a line `---- a::b::name stdout ----`.
fn outcomes(output: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(output).with_context(|| format!("cannot read {}", output.display()))?;
    outcomes_of(&text)
}

fn outcomes_of(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let line = Regex::new(r"^test (?:\w+::)*(\w+)(?: - .*)? \.\.\. (\w+)")?;
    let said = Regex::new(r"^---- (?:\w+::)*(\w+)(?: - .*)? stdout ----$")?;
    let mut all = BTreeMap::new();
    let mut speaking = None;
    for text in text.lines() {
        if let Some(found) = line.captures(text) {
            let outcome: &mut String = all.entry(found[1].to_owned()).or_insert_with(|| "ok".to_owned());
            if &found[2] != "ok" {
                found[2].clone_into(outcome);
            }
        } else if let Some(found) = said.captures(text) {
            speaking = Some(found[1].to_owned());
        } else if text.starts_with("test result:") {
            speaking = None;
        } else if let Some(outcome) = speaking.as_ref().filter(|_| text.starts_with("skipped: ")).and_then(|name| all.get_mut(name))
            && outcome == "ok"
        {
            "skipped".clone_into(outcome);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_skips_itself_proves_nothing() {
        let output = "test a::good ... ok\ntest a::absent ... ok\ntest bad ... FAILED\ntest left ... ignored\n\nsuccesses:\n\n\
                      ---- a::absent stdout ----\nskipped: ../shared/data is not there\n\ntest result: FAILED. 2 passed;\nskipped: nobody\n";
        let found = outcomes_of(output).unwrap();
        let expected = [("good", "ok"), ("absent", "skipped"), ("bad", "FAILED"), ("left", "ignored")];
        assert_eq!(found, expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).into());
    }

    #[test]
    fn ids_and_ranges_of_a_doc_comment_count() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let ids = requirements(&root.join("docs/spec")).unwrap();
        assert!(ids.contains("KAPI-SRV-01") && ids.contains("OLM1-OWN-03") && ids.contains("MS-CLI-06"), "{ids:?}");
        assert!(proofs(root).unwrap().contains_key("KAPI-REST-03"), "a range counts for what lies inside");
    }
}
