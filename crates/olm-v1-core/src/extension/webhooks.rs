//! Webhooks that nothing answers: those whose pods are simulated (KAPI-WL-06). The API server refuses the requests that they would review; if
//! such a webhook reviews pods, it stops every later pod. The functions are pure: that nodes are simulated is a fact of the cluster, [`Simulation`].

use std::collections::BTreeMap;

use mainstay_api::olm_v1::{OWNER_KIND_LABEL, OWNER_NAME_LABEL};
use mainstay_objects::LabelSelector;
use serde_json::Value;

/// Facts of a cluster about its simulated nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    /// True if every node is simulated, so that every pod is.
    pub everywhere: bool,
    /// True if such webhooks are skipped (`mainstay up --skip-simulated-webhooks`).
    pub passes_over: bool,
    /// Services that processes of the server's machine answer, `namespace/name` (`mainstay up --serve-local`).
    pub local_services: Vec<String>,
}

/// A webhook with failurePolicy Fail that nothing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Its name.
    pub name: String,
    /// Its configuration: kind and name.
    pub configuration: (String, String),
    /// The Service that it names, `namespace/name`.
    pub service: String,
    /// The ClusterExtension that it belongs to.
    pub extension: Option<String>,
    /// True if it reviews new pods.
    pods: bool,
    /// True if it has matchConditions, which are not evaluated here.
    conditional: bool,
    /// The requests that it reviews, `CREATE, UPDATE of gadgets.example.com`.
    asked_about: String,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl Simulation {
    /// The webhooks among these objects that nothing answers.
    pub fn unanswered(&self, objects: &[Value]) -> Vec<Unanswered> {
        if !self.everywhere || self.passes_over {
            return Vec::new();
        }
        let configurations = objects
            .iter()
            .filter(|object| matches!(object["kind"].as_str(), Some("ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration")));
        let hooks = configurations.flat_map(|object| {
            let hooks = object["webhooks"].as_array().into_iter().flatten();
            hooks.filter_map(move |hook| Unanswered::read(object, hook))
        });
        hooks.filter(|hook| !self.local_services.contains(&hook.service)).collect()
    }
}

impl Unanswered {
    fn read(configuration: &Value, hook: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &hook["clientConfig"]["service"];
        // An absent failurePolicy is Fail; a webhook with a URL calls no Service.
        if hook["failurePolicy"] == "Ignore" || !service.is_object() {
            return None;
        }
        let labels = &configuration["metadata"]["labels"];
        let extension = labels[OWNER_NAME_LABEL].as_str().filter(|_| labels[OWNER_KIND_LABEL] == "ClusterExtension");
        let rules = hook["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        Some(Self {
            name: text(&hook["name"]),
            configuration: (text(&configuration["kind"]), text(&configuration["metadata"]["name"])),
            service: format!("{}/{}", text(&service["namespace"]), text(&service["name"])),
            extension: extension.map(str::to_owned),
            pods: rules.iter().any(asks_about_new_pods),
            conditional: hook["matchConditions"].as_array().is_some_and(|conditions| !conditions.is_empty()),
            asked_about: rules.iter().map(in_words).collect::<Vec<_>>().join("; "),
            namespaces: selector(&hook["namespaceSelector"]),
            objects: selector(&hook["objectSelector"]),
        })
    }

    /// Returns true if a new pod with these labels, in a namespace with those, is certainly refused. A webhook with matchConditions may admit it.
    pub fn stops_pod(&self, labels: &BTreeMap<String, String>, namespace: &BTreeMap<String, String>) -> bool {
        self.pods && !self.conditional && self.objects.matches(labels) && self.namespaces.matches(namespace)
    }

    /// The consequence, in a sentence.
    pub fn consequence(&self) -> String {
        let (kind, configuration) = &self.configuration;
        let asked = if self.conditional { " that its matchConditions choose" } else { "" };
        let selected = match (self.namespaces.is_empty(), self.objects.is_empty()) {
            (true, true) => String::new(),
            (false, true) => format!(" in the namespaces with {}", self.namespaces),
            (true, false) => format!(" with {}", self.objects),
            (false, false) => format!(" with {} in the namespaces with {}", self.objects, self.namespaces),
        };
        let stopped = if self.pods {
            format!("no new pod{selected}{asked} can be created")
        } else {
            format!("{}{asked} is refused", self.asked_about)
        };
        format!(
            "webhook {} of {kind} {configuration} has failurePolicy Fail, and the pods of its Service {} are simulated and answer nothing: {stopped}",
            self.name, self.service
        )
    }

    /// The remedies, in a sentence.
    pub fn ways_out(&self) -> String {
        let removed = match &self.extension {
            Some(extension) => format!("mainstay uninstall {extension} removes it"),
            None => format!("kubectl delete {} {} removes it", self.configuration.0.to_lowercase(), self.configuration.1),
        };
        format!(
            "mainstay up with --serve-local {}=HOST:PORT lets a process answer, with --skip-simulated-webhooks passes over it; {removed}",
            self.service
        )
    }
}

/// A refusal by a webhook that nothing answers, in the API server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The webhook.
    pub webhook: String,
    /// Its Service, `namespace/name`; none if a URL is called.
    pub service: Option<String>,
    /// The ClusterExtension that it belongs to.
    pub extension: Option<String>,
    /// Its configuration, if it belongs to no extension.
    pub configuration: Option<String>,
}

impl Refusal {
    /// Finds such a refusal in a text. A retry does not help against it.
    pub fn find(text: &str) -> Option<Self> {
        let between = |begin: &str, end: &str| {
            let (_, rest) = text.split_once(begin)?;
            rest.split_once(end).map(|(found, _)| found.to_owned())
        };
        if !text.contains("has only simulated pods") && !text.contains("is the address of a simulated node or pod") {
            return None;
        }
        Some(Self {
            webhook: between("failed calling webhook \"", "\"").unwrap_or_default(),
            service: between(": service ", " has only simulated pods"),
            extension: between("belongs to clusterextension ", ":"),
            configuration: between("it belongs to webhook configuration ", ","),
        })
    }

    /// The webhook and its owner, in words.
    pub fn whose(&self) -> String {
        match (&self.extension, &self.configuration) {
            (Some(extension), _) => format!("webhook {} of clusterextension {extension}", self.webhook),
            (None, Some(configuration)) => format!("webhook {} of webhook configuration {configuration}", self.webhook),
            (None, None) => format!("webhook {}", self.webhook),
        }
    }
}

fn selector(value: &Value) -> LabelSelector {
    // The API server admitted it, so it is well-formed. A form that is not known here selects everything, which is the wider answer.
    serde_json::from_value(value.clone()).unwrap_or_default()
}

fn words<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn asks_about_new_pods(rule: &Value) -> bool {
    words(rule, "operations").any(|operation| matches!(operation, "*" | "CREATE"))
        && words(rule, "apiGroups").any(|group| matches!(group, "*" | ""))
        && words(rule, "resources").any(|resource| matches!(resource, "*" | "*/*" | "pods"))
}

fn in_words(rule: &Value) -> String {
    let groups: Vec<&str> = words(rule, "apiGroups").collect();
    let named = |resource: &str| match groups.as_slice() {
        [] | [""] => resource.to_owned(),
        [group] => format!("{resource}.{group}"),
        several => format!("{resource} of {}", several.join(", ")),
    };
    let resources: Vec<String> = words(rule, "resources").map(named).collect();
    format!("{} of {}", words(rule, "operations").collect::<Vec<_>>().join(", "), resources.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn configuration(policy: &Value, rules: &Value) -> Value {
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "vpod.example.com",
            "labels": {OWNER_KIND_LABEL: "ClusterExtension", OWNER_NAME_LABEL: "guard"}},
            "webhooks": [{"name": "vpod.example.com", "failurePolicy": policy, "rules": rules,
                "clientConfig": {"service": {"namespace": "guard-system", "name": "guard-service"}}}]})
    }

    fn pods() -> Value {
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}])
    }

    fn simulated() -> Simulation {
        Simulation { everywhere: true, ..Simulation::default() }
    }

    /// KAPI-WL-06, MS-PLAN-01: a webhook that is asked about pods stops them; it is named with its Service, and how it ends.
    #[test]
    fn pods_are_stopped() {
        let found = simulated().unanswered(&[configuration(&json!("Fail"), &pods())]);
        let [hook] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            hook.consequence(),
            "webhook vpod.example.com of ValidatingWebhookConfiguration vpod.example.com has failurePolicy Fail, and the pods of its Service \
             guard-system/guard-service are simulated and answer nothing: no new pod can be created"
        );
        let out = hook.ways_out();
        assert!(out.contains("--serve-local guard-system/guard-service=HOST:PORT"), "{out}");
        assert!(out.ends_with("mainstay uninstall guard removes it"), "{out}");
        assert!(hook.stops_pod(&BTreeMap::new(), &BTreeMap::new()));
    }

    /// KAPI-WL-06: nothing is said where the cluster does not say that its nodes are simulated, where a process answers, where webhooks are
    /// passed over or ignored, or where a URL is called.
    #[test]
    fn what_is_answered_is_not_told() {
        let one = [configuration(&json!("Fail"), &pods())];
        for quiet in [
            Simulation::default(),
            Simulation { passes_over: true, ..simulated() },
            Simulation { local_services: vec!["guard-system/guard-service".to_owned()], ..simulated() },
        ] {
            assert_eq!(quiet.unanswered(&one), [], "{quiet:?}");
        }
        assert_eq!(simulated().unanswered(&[configuration(&json!("Ignore"), &pods())]), []);
        let mut remote = configuration(&json!("Fail"), &pods());
        remote["webhooks"][0]["clientConfig"] = json!({"url": "https://example.com/"});
        assert_eq!(simulated().unanswered(&[remote]), []);
        // Absent is Fail.
        assert_eq!(simulated().unanswered(&[configuration(&Value::Null, &pods())]).len(), 1);
    }

    /// KAPI-WL-06: the API server's words are read back: the webhook, its Service, its owner.
    #[test]
    fn refusals_are_read() {
        let text = "FailedCreate: Internal error occurred: failed calling webhook \"vpod.example.com\": failed to call webhook: Post \
            \"https://guard-service.guard-system.svc:443/v?timeout=10s\": service guard-system/guard-service has only simulated pods, which \
            answer nothing; mainstay up --serve-local guard-system/guard-service=HOST:PORT sends its calls to a process; webhook configuration \
            vpod.example.com belongs to clusterextension guard: mainstay uninstall guard removes it";
        let found = Refusal::find(text).unwrap();
        assert_eq!(found.service.as_deref(), Some("guard-system/guard-service"));
        assert_eq!(found.whose(), "webhook vpod.example.com of clusterextension guard");
        let found = Refusal::find(
            "failed calling webhook \"w\": x: service a/b has only simulated pods; it belongs to webhook configuration mine, which kubectl delete removes",
        );
        assert_eq!(found.unwrap().whose(), "webhook w of webhook configuration mine");
        assert_eq!(Refusal::find("failed calling webhook \"w\": connection refused"), None);
    }

    /// KAPI-WL-06: what is asked about decides what is stopped, and selectors which.
    #[test]
    fn rules_and_selectors() {
        let rules = json!([{"apiGroups": ["example.com"], "operations": ["CREATE", "UPDATE"], "resources": ["widgets"]}]);
        let found = simulated().unanswered(&[configuration(&json!("Fail"), &rules)]);
        assert!(found[0].consequence().ends_with(": CREATE, UPDATE of widgets.example.com is refused"), "{}", found[0].consequence());
        assert!(!found[0].stops_pod(&BTreeMap::new(), &BTreeMap::new()));
        let mut narrow = configuration(&json!("Fail"), &json!([{"apiGroups": ["*"], "operations": ["*"], "resources": ["*"]}]));
        narrow["webhooks"][0]["namespaceSelector"] = json!({"matchLabels": {"watched": "yes"}});
        let found = simulated().unanswered(&[narrow]);
        assert!(
            found[0].consequence().ends_with("no new pod in the namespaces with watched=yes can be created"),
            "{}",
            found[0].consequence()
        );
        let labels = |value: &str| BTreeMap::from([("watched".to_owned(), value.to_owned())]);
        assert!(found[0].stops_pod(&BTreeMap::new(), &labels("yes")) && !found[0].stops_pod(&BTreeMap::new(), &labels("no")));
    }
}
