//! Butane configs by upstream's recorded answers.

use mainstay_ignition::butane::{self, NoFiles, Options};
use mainstay_testing::data;
use serde_json::{Value, json};

fn options(flags: &[Value]) -> Options {
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    Options { pretty: has("--pretty"), raw: has("--raw"), strict: has("--strict"), check: has("--check") }
}

/// MACH-MC-09: what the command prints, and its exit status.
#[test]
fn recorded() {
    let Some(lines) = data::json_lines("machine-config/butane.jsonl.gz") else { return };
    assert_eq!(lines.len(), 60);
    let mut wrong = Vec::new();
    for line in &lines {
        let answer = butane::answer(line["in"].as_str().unwrap(), options(line["flags"].as_array().unwrap()), &NoFiles);
        let ours = json!({ "rc": answer.status, "stdout": answer.stdout, "stderr": answer.stderr });
        for key in ["rc", "stdout", "stderr"] {
            if ours[key] != line["out"][key] {
                wrong.push(format!("{} {key}:\n  theirs {}\n  ours   {}", line["id"], line["out"][key], ours[key]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences, the first:\n{}", wrong.len(), wrong[..wrong.len().min(8)].join("\n"));
}
