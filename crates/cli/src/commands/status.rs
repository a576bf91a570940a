//! `mainstay status`: the embedded clusters of this user (MS-CLI-03), and what of them is played (CVO-SIM-05).

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use mainstay_alerts::{AlertState, Report};
use mainstay_diagnostics::counted;
use mainstay_operations::simulated::{self, Simulated};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::printable::printable_line;
use mainstay_terminal::registration::{Entry, running};
use mainstay_terminal::runtime;
use serde_json::{Value, json};

use crate::admin::ALERTS;

/// Interval between looks at the state with `--watch`.
const LOOK: Duration = Duration::from_secs(2);

/// Arguments.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Show it again whenever it has changed
    #[arg(long, short)]
    watch: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
}

/// Prints the clusters.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let mut last = None;
        loop {
            let mut clusters = Vec::new();
            for entry in running()? {
                clusters.push(state(&entry).await);
            }
            if last.as_ref() != Some(&clusters) {
                show(arguments, &clusters)?;
                last = Some(clusters);
            }
            if !arguments.watch {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                signal = tokio::signal::ctrl_c() => return signal.map_err(|error| Failure::failed("Ctrl-C", &error)),
            }
        }
    })
}

async fn state(entry: &Entry) -> Value {
    let mut value = json!({
        "pid": entry.pid, "server": entry.server, "kubeconfig": entry.kubeconfig, "dataDir": entry.data_dir, "components": entry.components,
    });
    let asked = ask(entry).await;
    let problem = asked.as_ref().err().map(|failure| failure.message().to_owned());
    let Answer { checks, nodes, simulated, alerts } = asked.unwrap_or_default();
    value["ready"] = (problem.is_none() && checks.iter().all(|(_, good)| *good)).into();
    value["checks"] = checks.iter().map(|(name, good)| json!({"name": name, "ok": good})).collect();
    value["nodes"] = nodes.iter().map(|(name, ready)| json!({"name": name, "ready": ready})).collect();
    if let Some(simulated) = simulated {
        value["simulated"] = json!({"clusterOperators": simulated.operators, "ofClusterOperators": simulated.of, "nodes": simulated.nodes});
    }
    if let Some(report) = alerts {
        value["alerts"] = json!(report);
    }
    if let Some(problem) = problem {
        value["problem"] = problem.into();
    }
    value
}

/// The state of a cluster.
#[derive(Debug, Default)]
struct Answer {
    /// Checks of the API server, each with a flag that is true if it is healthy.
    checks: Vec<(String, bool)>,
    /// Nodes, with the same flag.
    nodes: Vec<(String, bool)>,
    /// The played part of its release; `None` for a cluster without a release.
    simulated: Option<Simulated>,
    /// The alerts; none before the first evaluation.
    alerts: Option<Report>,
}

async fn ask(entry: &Entry) -> Result<Answer, Failure> {
    let session = ClusterArgs { kubeconfig: Some(entry.kubeconfig.clone()), ..ClusterArgs::default() }.open().await?;
    let unreachable = |error: kube::Error| mainstay_operations::refused("cluster", &error);
    let request = http::Request::get("/readyz?verbose").body(Vec::new()).map_err(|error| Failure::failed("cluster", &error))?;
    // A server that is not ready answers 500 with the same text.
    let text = match session.client.request_text(request).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        outcome => outcome.map_err(unreachable)?,
    };
    let check = |line: &str| Some((line.get(3..)?.split(' ').next()?.to_owned(), line.starts_with("[+]")));
    let checks = text.lines().filter(|line| line.starts_with("[+]") || line.starts_with("[-]")).filter_map(check).collect();
    let request = http::Request::get(ALERTS).body(Vec::new()).map_err(|error| Failure::failed("cluster", &error))?;
    let alerts = match session.client.request::<Report>(request).await {
        Err(kube::Error::Api(status)) if status.code == 503 || status.code == 404 => None,
        outcome => Some(outcome.map_err(unreachable)?),
    };
    let operators = simulated::operators(&session).await?;
    let nodes: Api<Node> = Api::all(session.client);
    let nodes = nodes.list(&ListParams::default()).await.map_err(unreachable)?;
    let ready = |node: &Node| {
        let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
        conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
    };
    let simulated = operators
        .map(|operators| Simulated { nodes: nodes.items.iter().filter(|node| simulated::is_simulated(node)).count(), ..operators });
    let nodes = nodes.items.iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), ready(node))).collect();
    Ok(Answer { checks, nodes, simulated, alerts })
}

fn show(arguments: &Arguments, clusters: &[Value]) -> Result<(), Failure> {
    if !arguments.output.is_table() {
        return output::value(&arguments.output, &Value::Array(clusters.to_vec()));
    }
    if clusters.is_empty() {
        return output::line("no embedded cluster is running; mainstay up starts one");
    }
    for cluster in clusters {
        let text = |key: &str| cluster[key].as_str().unwrap_or_default();
        let names = |key: &str| cluster[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
        output::line(format!("Server:      {}", text("server")))?;
        output::line(format!("Process:     {}", cluster["pid"]))?;
        output::line(format!(
            "Ready:       {}",
            if cluster["ready"] == true { "yes".to_owned() } else { format!("no {}", text("problem")) }
        ))?;
        output::line(format!("Kubeconfig:  {}", text("kubeconfig")))?;
        output::line(format!("Data:        {}", text("dataDir")))?;
        output::line(format!("Components:  {}", names("components")))?;
        let count = |key: &str| cluster["simulated"][key].as_u64().unwrap_or_default();
        if cluster["simulated"].is_object() {
            let (operators, of, nodes) = (count("clusterOperators"), count("ofClusterOperators"), count("nodes"));
            output::line(format!("simulated: {operators} of {of} cluster operators, {nodes} nodes"))?;
        }
        let mut table = Table::new(&["CHECK OR NODE", "STATE"]);
        for check in cluster["checks"].as_array().into_iter().flatten() {
            table.row([check["name"].as_str().unwrap_or_default(), if check["ok"] == true { "ok" } else { "failing" }]);
        }
        for node in cluster["nodes"].as_array().into_iter().flatten() {
            table.row([
                format!("node {}", node["name"].as_str().unwrap_or_default()),
                if node["ready"] == true { "Ready".to_owned() } else { "NotReady".to_owned() },
            ]);
        }
        output::print(&table.render(2))?;
        show_alerts(&cluster["alerts"])?;
    }
    Ok(())
}

/// Alerts that fire or are pending, and the number of rules (COP-11).
fn show_alerts(report: &Value) -> Result<(), Failure> {
    let Ok(report) = serde_json::from_value::<Report>(report.clone()) else { return Ok(()) };
    let of = |state: AlertState| report.alerts.iter().filter(|alert| alert.state == state).count();
    let counts = match (of(AlertState::Firing), of(AlertState::Pending)) {
        (0, 0) => "none".to_owned(),
        (firing, pending) => format!("{firing} firing, {pending} pending"),
    };
    let foreign = match report.not_evaluated.len() {
        0 => String::new(),
        some => format!("; {some} of {} read metrics that nothing here measures", counted(report.evaluated + some, "rule")),
    };
    output::line(format!("Alerts:      {counts}{foreign}"))?;
    for problem in &report.problems {
        output::line(format!("             {}", printable_line(problem)))?;
    }
    if report.alerts.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["ALERT", "SEVERITY", "STATE", "SINCE", "OF", "SUMMARY"]);
    for alert in &report.alerts {
        let label = |name: &str| printable_line(alert.labels.get(name).map_or("", String::as_str)).to_string();
        let summary =
            printable_line(alert.annotations.get("summary").or(alert.annotations.get("message")).map_or("", String::as_str)).to_string();
        let state = if alert.state == AlertState::Firing { "firing" } else { "pending" };
        table.row([label("alertname"), label("severity"), state.to_owned(), alert.active_at.to_string(), label("name"), summary]);
    }
    output::print(&table.render(2))
}
