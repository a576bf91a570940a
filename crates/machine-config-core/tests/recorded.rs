//! Upstream's recorded answers.

use mainstay_machine_config_core::cases::{self, CaseError};
use mainstay_testing::data;
use serde_json::Value;

fn all_equal(file: &str, count: usize, answer: impl Fn(&Value) -> Result<Value, CaseError>) {
    let Some(lines) = data::json_lines(&format!("machine-config/{file}.jsonl.gz")) else { return };
    assert_eq!(lines.len(), count);
    let mut wrong = Vec::new();
    for line in &lines {
        let ours = answer(line).unwrap();
        if ours != line["out"] {
            for (key, theirs) in line["out"].as_object().unwrap() {
                if ours.get(key) != Some(theirs) {
                    wrong.push(format!("{} {key}:\n  theirs {theirs}\n  ours   {}", line["id"], ours[key]));
                }
            }
            for key in ours.as_object().unwrap().keys().filter(|key| line["out"].get(key).is_none()) {
                wrong.push(format!("{} {key} is ours alone: {}", line["id"], ours[key]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences, the first:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}

/// MACH-MC-02, MACH-MC-03, MACH-MC-08: renders, their names, and the words about what cannot be rendered.
#[test]
fn merges() {
    all_equal("merge", 400, cases::merge);
}

/// MACH-NODE-03: which changes are done in place, and what differs.
#[test]
fn reconcilable() {
    all_equal("reconcilable", 600, cases::reconcilable);
}

/// MACH-DISR-01, MACH-DISR-02, MACH-DISR-03, MACH-DISR-04, MACH-DISR-05, MACH-DISR-06, MACH-DISR-07: actions and drains.
#[test]
fn disruptions() {
    all_equal("disruption", 600, cases::disruption);
}

/// MACH-MC-09: what Butane configs become.
#[test]
fn butane() {
    all_equal("butane", 60, cases::butane);
}
