//! Answers to a cluster against a naive reading of the specification, and against the words of an answer that is broken anywhere.

use std::collections::BTreeSet;

use mainstay_update_graph::{EvaluationError, Query, Status, Updates, evaluate, retrieve};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A version `1.0.N`, the image `iN`, edges by index, and groups of conditional edges by version with the rules of their risks.
#[derive(Debug, Clone)]
struct Answer {
    nodes: Vec<(u8, u8)>,
    edges: Vec<(usize, usize)>,
    groups: Vec<Group>,
}

/// Edges by version, and the rules of each risk.
type Group = (Vec<(u8, u8)>, Vec<Vec<&'static str>>);
/// The images of recommended updates, and of updates with risks with their status.
type Offers = (BTreeSet<u8>, Vec<(u8, &'static str)>);

/// Rules by a letter: always, a query that does not match, one that does, one that fails, and rules that do not count.
const RULES: [&str; 7] = ["A", "0", "1", "e", "unknown", "always with a query", "no query"];

fn rule(name: &str) -> Value {
    match name {
        "A" => json!({"type": "Always"}),
        "unknown" => json!({"type": "Moon"}),
        "always with a query" => json!({"type": "Always", "promql": {"promql": "1"}}),
        "no query" => json!({"type": "PromQL"}),
        query => json!({"type": "PromQL", "promql": {"promql": query}}),
    }
}

fn answer() -> impl Strategy<Value = Answer> {
    let nodes = prop::collection::vec((0..6_u8, 0..6_u8), 1..8);
    nodes.prop_flat_map(|nodes| {
        let count = nodes.len();
        let edges = prop::collection::vec((0..count, 0..count), 0..12);
        let risks = prop::collection::vec(prop::collection::vec(prop::sample::select(&RULES[..]), 0..3), 0..3);
        let groups = prop::collection::vec((prop::collection::vec((0..6_u8, 0..7_u8), 1..4), risks), 0..4);
        (edges, groups).prop_map(move |(edges, groups)| Answer { nodes: nodes.clone(), edges, groups })
    })
}

impl Answer {
    fn body(&self) -> String {
        let node = |(version, image): &(u8, u8)| json!({"version": format!("1.0.{version}"), "payload": format!("i{image}")});
        let group = |(edges, risks): &Group| {
            let edge = |(from, to): &(u8, u8)| json!({"from": format!("1.0.{from}"), "to": format!("1.0.{to}")});
            let risk = |(number, rules): (usize, &Vec<&str>)| {
                let rules: Vec<Value> = rules.iter().map(|name| rule(name)).collect();
                json!({"name": format!("R{number}"), "url": "u", "message": "m", "matchingRules": rules})
            };
            json!({"edges": edges.iter().map(edge).collect::<Vec<_>>(), "risks": risks.iter().enumerate().map(risk).collect::<Vec<_>>()})
        };
        json!({
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "edges": self.edges,
            "conditionalEdges": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// What a cluster at `1.0.0` is offered: the images of recommended updates, and of the others with their status; or why nothing.
    fn expected(&self) -> Result<Offers, String> {
        let Some(at) = self.nodes.iter().position(|(version, _)| *version == 0) else {
            return Err("Unable to retrieve available updates: currently reconciling cluster version 1.0.0 not found in the \"c\" channel"
                .to_owned());
        };
        let mut conditional: Vec<(u8, Option<&'static str>)> = Vec::new();
        for (edges, risks) in &self.groups {
            for (_, to) in edges.iter().filter(|(from, _)| *from == 0) {
                let Some((_, image)) = self.nodes.iter().find(|(version, _)| version == to) else {
                    return Err(format!("Unable to retrieve available updates: no node for conditional update 1.0.{to}"));
                };
                conditional.push((*image, status(risks)));
            }
        }
        let mut available: BTreeSet<u8> = self.edges.iter().filter(|(from, _)| *from == at).map(|(_, to)| self.nodes[*to].1).collect();
        available.retain(|image| conditional.iter().all(|(other, _)| other != image));
        let offered: Vec<(u8, &str)> = conditional.iter().filter_map(|(image, status)| Some((*image, (*status)?))).collect();
        let mut once: Vec<(u8, &str)> =
            offered.iter().copied().filter(|(image, _)| offered.iter().filter(|(other, _)| other == image).count() == 1).collect();
        available.extend(once.iter().filter(|(_, status)| *status == "True").map(|(image, _)| *image));
        once.sort_unstable();
        Ok((available, once))
    }
}

/// The status of an update with these risks; `None` if one has no rule that counts.
fn status(risks: &[Vec<&'static str>]) -> Option<&'static str> {
    let mut status = "True";
    for rules in risks {
        let counting: Vec<&&str> = rules.iter().filter(|name| name.len() == 1).collect();
        if counting.is_empty() {
            return None;
        }
        match counting.iter().find(|name| ***name != "e") {
            Some(&&"0") => {}
            Some(_) => status = "False",
            None if status == "True" => status = "Unknown",
            None => {}
        }
    }
    Some(status)
}

fn query() -> Query {
    Query {
        update_service: "http://a".to_owned(),
        cluster_id: "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11".to_owned(),
        desired_architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "c".to_owned(),
        version: "1.0.0".to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// CVO-USC-08, CVO-USC-09, CVO-USC-10, CVO-RISK-01, CVO-RISK-02, CVO-RISK-06: what a cluster is offered is what the specification says, read
    /// rule by rule.
    #[test]
    fn offers_equal_the_naive_reading(answer in answer()) {
        let query = query();
        let version = query.request().unwrap().version;
        let found = retrieve(&query, &version, "200 OK", answer.body().as_bytes());
        let found = found.map_err(|error| error.to_string()).map(|retrieved| {
            let mut updates = Updates::from(retrieved);
            evaluate(&mut updates, |rule| match rule.promql.as_ref().map(|query| query.promql.as_str()) {
                Some("0") => Ok(false),
                Some("1") => Ok(true),
                _ => Err(EvaluationError("no".to_owned())),
            });
            let image = |release: &mainstay_update_graph::ClusterRelease| release.image[1..].parse::<u8>().unwrap();
            let mut conditional: Vec<(u8, &str)> = updates
                .conditional
                .iter()
                .map(|update| (image(&update.release), update.recommended.as_ref().map_or("", |found| Status::as_str(found.status))))
                .collect();
            conditional.sort_unstable();
            (updates.available.iter().map(image).collect::<BTreeSet<u8>>(), conditional)
        });
        prop_assert_eq!(found, answer.expected());
    }

    /// CVO-USC-07: an answer that is broken off, or has another byte anywhere, is refused or read, and never anything else.
    #[test]
    fn broken_answers(answer in answer(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let query = query();
        let version = query.request().unwrap().version;
        let mut body = answer.body().into_bytes();
        let at = at.index(body.len());
        let cut = retrieve(&query, &version, "200 OK", &body[..at]);
        prop_assert_eq!(cut.unwrap_err().reason(), "ResponseInvalid");
        body[at] = byte;
        if let Err(error) = retrieve(&query, &version, "200 OK", &body) {
            prop_assert!(["ResponseInvalid", "VersionNotFound"].contains(&error.reason()), "{}", error);
        }
    }
}
