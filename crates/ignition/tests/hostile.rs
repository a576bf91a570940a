//! Texts that are nearly configs.

use mainstay_ignition::butane::{self, NoFiles, Options};
use mainstay_ignition::{parse, v2};
use mainstay_testing::data;
use proptest::prelude::*;
use serde_json::Value;

const PIECES: [&str; 20] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "null",
    "-1",
    "1e400",
    "\\u0000",
    "é",
    "\n",
    "\t",
    "- ",
    "&a ",
    "*a",
    "{}",
    "data:;base64,=",
    "%zz",
];

/// A text with some of its bytes taken out and pieces put in; places are parts of its length.
fn mutated(text: &str, changes: &[(u16, u8, u8)]) -> String {
    let mut text = text.to_owned();
    for (place, piece, cut) in changes {
        let mut at = text.len() * usize::from(*place) / (usize::from(u16::MAX) + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let mut end = (at + usize::from(*cut % 8)).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        text.replace_range(at..end, PIECES[usize::from(*piece) % PIECES.len()]);
    }
    text
}

fn changes() -> impl Strategy<Value = Vec<(u16, u8, u8)>> {
    prop::collection::vec(any::<(u16, u8, u8)>(), 1..4)
}

/// MACH-MC-08: a damaged config is refused with a place, or read; never a panic.
#[test]
fn damaged_ignition() {
    let Some(lines) = data::json_lines("machine-config/merge.jsonl.gz") else { return };
    let texts: Vec<String> = lines
        .iter()
        .take(60)
        .flat_map(|line| line["in"]["configs"].as_array().or_else(|| line["configs"].as_array()).cloned().unwrap_or_default())
        .filter_map(|config| config["spec"]["ignition"].as_str().map(str::to_owned))
        .collect();
    assert!(texts.len() > 60);
    proptest!(ProptestConfig::with_cases(2_000), |(index in any::<prop::sample::Index>(), changes in changes())| {
        let text = mutated(&texts[index.index(texts.len())], &changes);
        if let Ok(parsed) = parse(&text) {
            // A value that a newer version forbids may have been allowed in the version of the text.
            let written = parsed.config.to_json();
            if let Ok(again) = parse(&written) {
                prop_assert_eq!(again.config.to_json(), written);
            }
        }
        let _old = v2::parse(&text);
    });
}

/// MACH-MC-09: the same of Butane configs.
#[test]
fn damaged_butane() {
    let Some(lines) = data::json_lines("machine-config/butane.jsonl.gz") else { return };
    let texts: Vec<String> = lines.iter().filter_map(|line| line["in"].as_str().map(str::to_owned)).collect();
    proptest!(ProptestConfig::with_cases(1_000), |(index in any::<prop::sample::Index>(), changes in changes(), raw in any::<bool>())| {
        let text = mutated(&texts[index.index(texts.len())], &changes);
        let answer = butane::answer(&text, Options { raw, ..Options::default() }, &NoFiles);
        prop_assert_eq!(answer.status == 0, !answer.stdout.is_empty());
        prop_assert_eq!(answer.status == 1, answer.stderr.contains("Error translating config: "));
        if answer.status == 0 && raw {
            let made: Value = serde_json::from_str(&answer.stdout).unwrap();
            prop_assert!(made["ignition"]["version"].is_string());
        }
    });
}
