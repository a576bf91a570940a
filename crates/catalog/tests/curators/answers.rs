//! UpdatePaths, searches, and the checks of a change.

use mainstay_catalog::ci::{self, Check};
use mainstay_catalog::lint::Placed;
use mainstay_catalog::parts::Parts;
use mainstay_catalog::search::search;
use mainstay_catalog::why::{Question, WhyError, why};
use serde_json::{Value, json};

use crate::curators::builders::{bundle, changed, channel, entry, placed, sound};

fn ask(blobs: &[Value], from: &str, to: Option<&str>, channels: &[&str]) -> Result<(Vec<String>, Vec<String>), WhyError> {
    let placed = placed(blobs);
    let channels: Vec<String> = channels.iter().map(|name| (*name).to_owned()).collect();
    let question = Question { package: "p", from, to, channels: &channels };
    let answer = why(&question, &Parts::by_package(&placed.catalog))?;
    assert_eq!(answer.reached, answer.channels.iter().any(|channel| channel.reached));
    let told = answer.channels.iter().map(|channel| {
        let way: Vec<&str> = channel.path.iter().map(|step| step.to.shown()).collect();
        if channel.reached {
            format!("{}: {}", channel.channel, way.join(" "))
        } else {
            format!("{}: {}", channel.channel, channel.reasons.join("; "))
        }
    });
    Ok((told.collect(), answer.hints))
}

/// OLM1-QUERY-02: ways, and why there is none; each hint was tried.
#[test]
fn ways_and_reasons() {
    let mut blobs = sound();
    blobs[1]["entries"][1]["skipRange"] = ">=0.5.0 <1.0.0".into();
    blobs.push(channel("eus", json!([entry("1.0.0", "", &[], ""), entry("1.1.0", "1.0.0", &[], "")])));
    blobs.push(channel("new", json!([entry("2.0.0", "", &[], "")])));
    let way = |from, to, channels: &[&str]| ask(&blobs, from, to, channels).unwrap();
    assert_eq!(way("1.0.0", Some("2.0.0"), &[]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("p.v1.0.0", None, &["stable"]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("0.7.0", Some("p.v2.0.0"), &["stable"]).0, ["stable: p.v1.1.0 p.v2.0.0"]);
    assert_eq!(way("2.0.0", None, &["stable"]).0, ["stable: "]);
    let (told, hints) = way("1.0.0", Some("2.0.0"), &["new"]);
    assert_eq!(
        told,
        [
            "new: p.v2.0.0 replaces nothing; p.v2.0.0 has no skipRange; no entry of the channel updates p.v1.0.0, which is not in the channel"
        ]
    );
    assert_eq!(hints, ["channel stable leads from p.v1.0.0 to p.v2.0.0"]);
    let (told, hints) = way("2.0.0", Some("1.1.0"), &["stable"]);
    assert!(told[0].starts_with("stable: p.v1.1.0 is not newer than p.v2.0.0; updates go upwards"), "{told:?}");
    assert_eq!(hints, Vec::<String>::new());
    let (told, hints) = way("0.1.0", Some("2.0.0"), &["stable"]);
    assert!(told[0].contains("p.v2.0.0 replaces p.v1.1.0, which cannot be reached either"), "{told:?}");
    assert_eq!(hints, ["from p.v1.0.0 channel stable leads to p.v2.0.0"]);
    // Two channels, one after the other.
    blobs[1]["entries"] = json!([entry("1.1.0", "", &[], ""), entry("2.0.0", "1.1.0", &[], "")]);
    let (_, hints) = ask(&blobs, "1.0.0", Some("2.0.0"), &[]).unwrap();
    assert_eq!(hints, ["channel eus leads from p.v1.0.0 to p.v1.1.0, and channel stable from there to p.v2.0.0"]);
    assert!(matches!(ask(&blobs, "p.v1.0.O", None, &[]), Err(WhyError::NoBundle { near: Some(near), .. }) if near == "p.v1.0.0"));
    assert!(matches!(ask(&blobs, "1.0.0", None, &["fast"]), Err(WhyError::NoChannel { .. })));
}

/// MS-CLI-05: packages are found by what they provide and say, the best fit first; every word counts.
#[test]
fn searches() {
    let placed = changed(|c| {
        c.push(json!({"schema": "olm.package", "name": "things", "defaultChannel": "c"}));
        c.push(json!({"schema": "olm.channel", "package": "things", "name": "c", "entries": [{"name": "things.v1.0.0"}]}));
        let mut of = bundle("things", "1.0.0");
        of["properties"][0]["value"]["kind"] = "Kafka".into();
        c.push(of);
    });
    let packages = Parts::by_package(&placed.catalog);
    let names = |text: &str| search(&packages, text).into_iter().map(|found| found.package).collect::<Vec<_>>();
    assert_eq!(names(""), ["p", "things"]);
    assert_eq!(names("kafka"), ["things"]);
    assert_eq!(names("thing"), ["p", "things"]);
    assert_eq!(names("things"), ["things", "p"]);
    assert_eq!(names("database kafka"), ["things"]);
    assert_eq!(names("database nothing"), Vec::<String>::new());
    let found = serde_json::to_value(search(&packages, "kafka")).unwrap();
    assert_eq!(found[0]["matches"], json!([{"field": "kind", "value": "Kafka"}]));
    assert_eq!(found[0]["version"], "1.0.0");
}

/// CATLG-69, CATLG-67, OLM1-FBC-18: the checks of a change, each with what it is for.
#[test]
fn checks_of_a_change() {
    let failed = |new: &Placed, allowed: &[&str]| {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let (report, _) = ci::check(&placed(&sound()), new, Some(&allowed));
        assert_eq!(report.passed, report.checks.iter().all(|outcome| outcome.passed));
        report.checks.into_iter().filter(|outcome| !outcome.passed).map(|outcome| outcome.check).collect::<Vec<_>>()
    };
    let grown = changed(|c| {
        c[1]["entries"].as_array_mut().unwrap().push(entry("2.1.0", "2.0.0", &[], ""));
        c.push(bundle("p", "2.1.0"));
    });
    assert_eq!(failed(&grown, &["p"]), []);
    assert_eq!(failed(&grown, &["q"]), [Check::Packages]);
    let (_, difference) = ci::check(&placed(&sound()), &grown, None);
    assert_eq!(ci::images(&difference).into_values().collect::<Vec<_>>(), [("p", "p.v2.1.0")]);
    assert_eq!(failed(&changed(|c| c[2]["image"] = "registry.example/p:v1".into()), &["p"]), [Check::Immutable]);
    assert_eq!(failed(&changed(|c| c[1]["entries"] = json!([entry("2.0.0", "1.1.0", &[], "")])), &["p"]), [Check::Valid, Check::Updates]);
    assert_eq!(failed(&changed(|c| c[0]["defaultChannel"] = "x".into()), &["p"]), [Check::Lint]);
    assert_eq!(failed(&changed(|c| c.push(json!({"schema": "example.com/x"}))), &["p"]), [Check::Packages]);
}

/// OLM1-QUERY-02: many long channels are answered too; walking from each of their bundles through every other channel would take hours.
#[test]
fn a_way_back_in_many_long_channels() {
    let version = |number: usize| format!("1.{number}.0");
    let entries: Vec<Value> =
        (0..600).map(|at| entry(&version(at), &if at == 0 { String::new() } else { version(at - 1) }, &[], "")).collect();
    let mut blobs = vec![json!({"schema": "olm.package", "name": "p", "defaultChannel": "c0"})];
    blobs.extend((0..20).map(|number| channel(&format!("c{number}"), Value::from(entries.clone()))));
    blobs.extend((0..600).map(|at| bundle("p", &version(at))));
    let (told, hints) = ask(&blobs, "1.5.0", Some("1.0.0"), &[]).unwrap();
    assert_eq!(told.len(), 20);
    assert!(told[0].starts_with("c0: p.v1.0.0 is not newer than p.v1.5.0; updates go upwards"), "{told:?}");
    assert_eq!(hints, Vec::<String>::new());
}
