//! The environment and the command line of a container's process (KAPI-WL-07). All of it is pure.

use kube::api::DynamicObject;
use serde_json::Value;

use super::error::ProcessError;
use super::fields::{self, Addresses};
use super::mapping::RunImage;
use super::sources::{Held, Holder};

/// The largest environment, in bytes.
const LARGEST: usize = 1 << 20;

/// The variables of a process, in order; a later one of a name replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<(String, String)>);

impl Environment {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Returns a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the variables.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Replaces `$(NAME)` by the variable if there is one; `$$` is a dollar sign that begins nothing.
    pub fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let behind = &rest[at + 1..];
            if let Some(after) = behind.strip_prefix('$') {
                out.push('$');
                rest = after;
                continue;
            }
            let Some((name, after)) = behind.strip_prefix('(').and_then(|inner| inner.split_once(')')) else {
                out.push('$');
                rest = behind;
                continue;
            };
            match self.get(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// Fills in the environment of a container, over the one that every process gets.
///
/// # Errors
/// An object or key that it needs is not there, in the words of the kubelet.
pub fn environment(
    pod: &DynamicObject,
    container: &Value,
    base: Environment,
    held: &Held,
    addresses: &Addresses,
) -> Result<Environment, ProcessError> {
    let mut all = base;
    let list = |name: &str| container[name].as_array().into_iter().flatten();
    for source in list("envFrom") {
        let prefix = source["prefix"].as_str().unwrap_or_default();
        for (path, kind) in [("configMapRef", Holder::ConfigMap), ("secretRef", Holder::Secret)] {
            let Some(name) = source[path]["name"].as_str() else { continue };
            match content(held, kind, name) {
                Some(content) => {
                    for (key, value) in content {
                        let value =
                            String::from_utf8(value.clone()).map_err(|_| format!("{} {name:?}: key {key:?} is no text", kind.word()))?;
                        all.set(&format!("{prefix}{key}"), value);
                    }
                }
                None if source[path]["optional"] == true => {}
                None => return Err(format!("{} {name:?} not found", kind.word()).into()),
            }
        }
    }
    for variable in list("env") {
        let name = variable["name"].as_str().unwrap_or_default();
        let value = match variable.get("valueFrom").filter(|from| from.is_object()) {
            None => Some(all.expand(variable["value"].as_str().unwrap_or_default())),
            Some(from) => from_source(pod, container, from, held, addresses)?,
        };
        if let Some(value) = value {
            all.set(name, value);
        }
    }
    if let Some((name, _)) = all.all().find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')) {
        return Err(format!("environment variable {name:?} cannot be given to a process").into());
    }
    if all.all().map(|(name, value)| name.len() + value.len()).sum::<usize>() > LARGEST {
        return Err(format!("the environment is larger than {LARGEST} bytes").into());
    }
    Ok(all)
}

fn content<'a>(held: &'a Held, kind: Holder, name: &str) -> Option<&'a std::collections::BTreeMap<String, Vec<u8>>> {
    held.get(&(kind, name.to_owned())).and_then(Option::as_ref)
}

/// Returns the value of a variable; `None` if it may be missing and is.
fn from_source(
    pod: &DynamicObject,
    container: &Value,
    from: &Value,
    held: &Held,
    addresses: &Addresses,
) -> Result<Option<String>, ProcessError> {
    if let Some(path) = from.pointer("/fieldRef/fieldPath").and_then(Value::as_str) {
        return fields::field(pod, addresses, path).map(Some);
    }
    if from["resourceFieldRef"].is_object() {
        let name = container["name"].as_str().unwrap_or_default();
        return fields::resource(pod, name, &from["resourceFieldRef"]).map(Some);
    }
    for (path, kind) in [("configMapKeyRef", Holder::ConfigMap), ("secretKeyRef", Holder::Secret)] {
        let reference = &from[path];
        let Some(name) = reference["name"].as_str() else { continue };
        let (key, optional) = (reference["key"].as_str().unwrap_or_default(), reference["optional"] == true);
        return match content(held, kind, name) {
            Some(content) => match content.get(key) {
                Some(value) => {
                    Ok(Some(String::from_utf8(value.clone()).map_err(|_| format!("{} {name:?}: key {key:?} is no text", kind.word()))?))
                }
                None if optional => Ok(None),
                None => {
                    let kind = if kind == Holder::Secret { "Secret" } else { "ConfigMap" };
                    Err(format!("couldn't find key {key} in {kind} {}/{name}", pod.metadata.namespace.as_deref().unwrap_or_default())
                        .into())
                }
            },
            None if optional => Ok(None),
            None => Err(format!("{} {name:?} not found", kind.word()).into()),
        };
    }
    Err("a source of a variable is not supported".into())
}

/// Returns the words of a process: the program takes the place of the image's entry point and of the first word of `command`; its own
/// arguments come first, then the rest of `command`, then `args`.
pub fn command_line(mapping: &RunImage, container: &Value, environment: &Environment) -> Vec<String> {
    let list = |name: &str| container[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    let given = list("command").skip(1).chain(list("args")).map(|word| environment.expand(word));
    std::iter::once(mapping.program.clone()).chain(mapping.arguments.iter().cloned()).chain(given).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::needless_pass_by_value, clippy::type_complexity, reason = "tables of cases")]
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn held() -> Held {
        let content = |pairs: &[(&str, &[u8])]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect::<BTreeMap<_, _>>())
        };
        [
            ((Holder::ConfigMap, "settings".to_owned()), content(&[("mode", b"fast"), ("size", b"3")])),
            ((Holder::Secret, "login".to_owned()), content(&[("password", b"s3"), ("raw", &[0xff])])),
            ((Holder::ConfigMap, "gone".to_owned()), None),
        ]
        .into()
    }

    fn pod() -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "web"}, "annotations": {"team": "a\"b"}},
            "spec": {"nodeName": "worker-1", "serviceAccountName": "sa", "containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}},
            ]},
        }))
        .unwrap()
    }

    fn filled(container: &Value) -> Result<Environment, ProcessError> {
        let mut base = Environment::default();
        base.set("MAINSTAY_ROOT", "/r".to_owned());
        let addresses = Addresses { host: "172.31.0.2".to_owned(), pod: "10.244.0.9".to_owned() };
        let mut container = container.clone();
        container["name"] = json!("c");
        environment(&pod(), &container, base, &held(), &addresses)
    }

    /// KAPI-WL-07: variables come from fields, resources, ConfigMaps and Secrets, later ones may name earlier ones, and `env` wins over
    /// `envFrom`.
    #[test]
    fn variables_are_filled_in() {
        let from = |source: Value| json!({"valueFrom": source});
        let mut env = Vec::new();
        for (name, rest) in [
            ("NODE", from(json!({"fieldRef": {"fieldPath": "spec.nodeName"}}))),
            ("LABEL", from(json!({"fieldRef": {"fieldPath": "metadata.labels['app']"}}))),
            ("NONE", from(json!({"fieldRef": {"fieldPath": "metadata.annotations['x']"}}))),
            ("IP", from(json!({"fieldRef": {"fieldPath": "status.podIP"}}))),
            ("CPU", from(json!({"resourceFieldRef": {"resource": "limits.cpu"}}))),
            ("CPU_MILLI", from(json!({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}))),
            ("MEM", from(json!({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}))),
            ("REQUEST", from(json!({"resourceFieldRef": {"resource": "requests.memory"}}))),
            ("PASSWORD", from(json!({"secretKeyRef": {"name": "login", "key": "password"}}))),
            ("MAYBE", from(json!({"configMapKeyRef": {"name": "gone", "key": "x", "optional": true}}))),
            ("cm_mode", json!({"value": "slow"})),
            ("URL", json!({"value": "$(NODE):$(cm_size)$(UNKNOWN)$$(NODE)$$$x$"})),
        ] {
            let mut one = rest;
            one["name"] = json!(name);
            env.push(one);
        }
        let all = filled(&json!({"envFrom": [{"prefix": "cm_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "no", "optional": true}}], "env": env})).unwrap();
        for (name, value) in [
            ("NODE", Some("worker-1")),
            ("LABEL", Some("web")),
            ("NONE", Some("")),
            ("IP", Some("10.244.0.9")),
            ("CPU", Some("2")),
            ("CPU_MILLI", Some("250")),
            ("MEM", Some("64")),
            ("REQUEST", Some("67108864")),
            ("PASSWORD", Some("s3")),
            ("MAYBE", None),
            ("cm_mode", Some("slow")),
            ("cm_size", Some("3")),
            ("URL", Some("worker-1:3$(UNKNOWN)$(NODE)$$x$")),
        ] {
            assert_eq!(all.get(name), value, "{name}");
        }
        let line = command_line(
            &"app=/bin/op --own '$(NODE)'".parse().unwrap(),
            &json!({"command": ["/manager", "--root=$(MAINSTAY_ROOT)"], "args": ["$(NODE)"]}),
            &all,
        );
        assert_eq!(line, ["/bin/op", "--own", "$(NODE)", "--root=/r", "worker-1"]);
    }

    /// KAPI-WL-07: what is missing is named in the words of the kubelet.
    #[test]
    fn missing_sources_are_named() {
        let from = |source: Value| json!({"env": [{"name": "A", "valueFrom": source}]});
        for (container, why) in [
            (json!({"envFrom": [{"configMapRef": {"name": "gone"}}]}), "configmap \"gone\" not found"),
            (json!({"envFrom": [{"secretRef": {"name": "other"}}]}), "secret \"other\" not found"),
            (json!({"envFrom": [{"secretRef": {"name": "login"}}]}), "secret \"login\": key \"raw\" is no text"),
            (from(json!({"configMapKeyRef": {"name": "settings", "key": "no"}})), "couldn't find key no in ConfigMap n/settings"),
            (from(json!({"secretKeyRef": {"name": "none", "key": "a"}})), "secret \"none\" not found"),
            (from(json!({"fieldRef": {"fieldPath": "spec.hostname"}})), "fieldPath \"spec.hostname\" is not supported"),
            (from(json!({"resourceFieldRef": {"resource": "limits.gpu"}})), "resource \"limits.gpu\" is not supported"),
            (json!({"env": [{"name": "A", "value": "a\u{0}b"}]}), "environment variable \"A\" cannot be given to a process"),
            (json!({"env": [{"name": "A", "value": "x".repeat(LARGEST)}]}), "the environment is larger than 1048576 bytes"),
        ] {
            assert_eq!(filled(&container).unwrap_err().to_string(), why);
        }
    }
}
