//! The screens that `oc adm upgrade` printed for 80 generated clusters.

use mainstay_cluster_update::status::{Details, Facts, recorded_now, status};
use mainstay_cluster_update::{Allowances, Asked, Screen, Style, channel, request, rollback, summary};
use mainstay_testing::data;
use serde_json::{Value, json};

const MISSING: &str =
    "No cluster version information available - you must be connected to an OpenShift version 4 server to fetch the current version";

fn asked(args: &[&str]) -> (Asked, bool) {
    let value = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned);
    let has = |name: &str| args.contains(&name);
    let allow = Allowances {
        force: has("--force"),
        explicit_upgrade: has("--allow-explicit-upgrade"),
        upgrade_with_warnings: has("--allow-upgrade-with-warnings"),
        not_recommended: has("--allow-not-recommended"),
    };
    let asked = Asked {
        to: value("--to"),
        to_image: value("--to-image"),
        to_latest: has("--to-latest"),
        to_multi_arch: has("--to-multi-arch"),
        clear: has("--clear"),
        allow,
    };
    (asked, has("--include-not-recommended"))
}

/// The output and the patch of a command.
fn answer(args: &[&str], cluster_version: &Value) -> Result<Screen, String> {
    if args.first() == Some(&"channel") {
        let wanted = args.iter().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or(&"");
        return channel(wanted, args.contains(&"--allow-explicit-channel"), cluster_version).map_err(|error| error.to_string());
    }
    if args.first() == Some(&"rollback") {
        return rollback(cluster_version).map_err(|error| error.to_string());
    }
    let (asked, risky) = asked(args);
    let (target, _) = asked.target().map_err(|error| error.to_string())?;
    if cluster_version.is_null() {
        return Err(MISSING.to_owned());
    }
    if target == mainstay_cluster_update::Target::None {
        return Ok(summary(cluster_version, risky, Style::V4_19));
    }
    request(&asked, cluster_version).map_err(|error| error.to_string())
}

/// CVO-CLI-01..14, CVO-CHAN-01, CVO-CHAN-02, CVO-RLBK-01: screens, warnings, refusals and patches of 40 clusters.
#[test]
fn upgrades() {
    let Some(lines) = data::json_lines("cluster-version/screens.jsonl.gz") else { return };
    let mut compared = 0;
    for line in lines.iter().filter(|line| line["type"] == "upgrade") {
        for output in line["outputs"].as_array().unwrap() {
            let args: Vec<&str> = output["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            // What is no option at all is for the parser of the command line to refuse.
            if output["stderr"].as_str().unwrap().contains("unknown command") {
                continue;
            }
            let ours = match answer(&args, &line["clusterVersion"]) {
                Ok(screen) => json!({"rc": 0, "stdout": screen.text, "stderr": screen.warnings, "patches": Vec::from_iter(screen.patch)}),
                Err(error) => {
                    let end = if error.ends_with('\n') { "" } else { "\n" };
                    json!({"rc": 1, "stdout": "", "stderr": format!("error: {error}{end}"), "patches": []})
                }
            };
            for field in ["rc", "stdout", "stderr", "patches"] {
                assert_eq!(ours[field], output[field], "case {} {args:?} {field}", line["case"]);
            }
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// CVO-STAT-01..08: the status of 40 clusters, short and with details.
#[test]
fn statuses() {
    let Some(lines) = data::json_lines("cluster-version/screens.jsonl.gz") else { return };
    let mut compared = 0;
    for line in lines.iter().filter(|line| line["type"] == "status") {
        let input = &line["input"];
        let items = |name: &str| input[name]["items"].as_array().unwrap().clone();
        let (operators, pools, configs, nodes) = (items("co"), items("mcp"), items("mc"), items("node"));
        let facts = Facts {
            cluster_version: &input["cv"],
            operators: &operators,
            pools: &pools,
            machine_configs: &configs,
            nodes: &nodes,
            alerts: if input["alerts"].is_null() { Err("open case-alerts.json: no such file or directory") } else { Ok(&input["alerts"]) },
            now: recorded_now(&input["cv"], &operators),
        };
        for output in line["outputs"].as_array().unwrap() {
            let details = match output["details"].as_str().unwrap() {
                "none" => Details::None,
                "all" => Details::All,
                "nodes" => Details::Nodes,
                _ => Details::Health,
            };
            let (out, err) = match status(&facts, details) {
                Ok(text) => (text, String::new()),
                Err(error) => (String::new(), format!("error: {error}")),
            };
            assert_eq!(out, output["stdout"].as_str().unwrap(), "case {} {details:?}", line["case"]);
            assert_eq!(err, output["stderr"].as_str().unwrap(), "case {} {details:?}", line["case"]);
            compared += 1;
        }
    }
    assert_eq!(compared, 80);
}
