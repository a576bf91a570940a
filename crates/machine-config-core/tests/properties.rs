//! Properties of all MachineConfigs.

use mainstay_machine_config_core::cases;
use mainstay_testing::data;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Lines of a recorded file.
fn lines(file: &str, count: usize) -> Option<Vec<Value>> {
    let lines = data::json_lines(&format!("machine-config/{file}.jsonl.gz"))?;
    Some(lines.into_iter().take(count).collect())
}

/// The texts of Ignition configs in a line, changed.
fn damage(value: &mut Value, place: u16, piece: &str, cut: usize) {
    match value {
        Value::String(text) if text.starts_with('{') => {
            let mut at = text.len() * usize::from(place) / (usize::from(u16::MAX) + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let mut end = (at + cut).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(at..end, piece);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| damage(item, place, piece, cut)),
        Value::Object(members) => members.values_mut().for_each(|member| damage(member, place, piece, cut)),
        _ => {}
    }
}

/// MACH-MC-02, MACH-MC-03: the order in which MachineConfigs are listed changes neither the result nor its name.
#[test]
fn order_of_input() {
    let Some(lines) = lines("merge", 120) else { return };
    for line in &lines {
        let answer = cases::merge(line).unwrap()["out"].take();
        if !answer["mergeError"].is_null() {
            continue;
        }
        let mut turned = line.clone();
        let Some(configs) = turned["configs"].as_array_mut() else { continue };
        configs.reverse();
        let other = cases::merge(&turned).unwrap()["out"].take();
        assert_eq!((&answer["merged"], &answer["name"]), (&other["merged"], &other["name"]), "{}", line["id"]);
    }
}

/// MACH-DISR-01, MACH-NODE-03: a change from a MachineConfig to itself is none.
#[test]
fn no_change() {
    let (Some(changes), Some(disruptions)) = (lines("reconcilable", 200), lines("disruption", 200)) else { return };
    for mut line in changes {
        line["old"] = line["new"].clone();
        let answer = cases::reconcilable(&line).unwrap()["out"].take();
        if let Some(diff) = answer["diff"].as_object() {
            assert!(diff.values().all(|differs| *differs == false), "{}", line["id"]);
        }
    }
    for mut line in disruptions {
        line["old"] = line["new"].clone();
        let answer = cases::disruption(&line).unwrap()["out"].take();
        for list in ["files", "units"] {
            assert_eq!(answer[list].as_array().map_or(0, Vec::len), 0, "{}", line["id"]);
        }
    }
}

/// MACH-NODE-03: removing every old argument once and adding every new one leads from the one list to the other.
#[test]
fn kernel_arguments() {
    let arguments = || prop::collection::vec(prop::sample::select(vec!["a", "b=1", "nosmt", "mitigations=auto,nosmt"]), 0..4);
    let config = |name: &str, arguments: &[&str]| json!({"name": name, "spec": {"ignition": "{\"ignition\":{\"version\":\"3.4.0\"}}", "kernelArguments": arguments}});
    proptest!(|(old in arguments(), new in arguments())| {
        let answer = cases::reconcilable(&json!({"old": config("x", &old), "new": config("y", &new)})).unwrap()["out"].take();
        let mut left: Vec<&str> = old.clone();
        for change in answer["kargs"].as_array().unwrap() {
            let change = change.as_str().unwrap();
            if let Some(gone) = change.strip_prefix("--delete=") {
                let at = left.iter().position(|argument| *argument == gone);
                prop_assert!(at.is_some(), "{} is not among {:?}", gone, left);
                left.remove(at.unwrap());
            } else {
                left.push(change.strip_prefix("--append=").unwrap());
            }
        }
        prop_assert_eq!(left, new);
    });
}

/// MACH-MC-08: damaged configs lead to an answer that names what is wrong; never to a panic.
#[test]
fn damaged_configs() {
    const PIECES: [&str; 10] = ["{", "}", "[]", ":", "null", "-7", "\"", "true", "é", ""];
    let (Some(merges), Some(changes), Some(disruptions)) = (lines("merge", 60), lines("reconcilable", 60), lines("disruption", 60)) else {
        return;
    };
    proptest!(ProptestConfig::with_cases(400), |(index in 0_usize..60, place in any::<u16>(), piece in 0_usize..10, cut in 0_usize..6)| {
        for (lines, answer) in [
            (&merges, cases::merge as fn(&Value) -> Result<Value, cases::CaseError>),
            (&changes, cases::reconcilable),
            (&disruptions, cases::disruption),
        ] {
            let mut line = lines[index].clone();
            damage(&mut line, place, PIECES[piece], cut);
            if let Ok(answer) = answer(&line) {
                prop_assert!(answer.is_object());
            }
        }
    });
}
