//! The JSON text of a built-in object as Go's encoder writes it: members of structs in the order of their declaration.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::table::{Field, Form, Kind, Message, table};

/// The objects that a patch went into, by the names and indexes on the way there. Go holds them as maps from then on, whose members it writes in
/// alphabetical order.
#[derive(Debug, Default)]
pub struct Opened(BTreeMap<String, Opened>);

impl Opened {
    /// The object or list of that name or index, which is opened, too.
    pub fn open(&mut self, part: &str) -> &mut Self {
        self.0.entry(part.to_owned()).or_default()
    }

    fn below(&self, part: &str) -> Option<&Self> {
        self.0.get(part)
    }
}

/// Returns the text of an object of that kind, of which the objects in `opened` were opened; `None` for kinds that are not built in. `plain` writes
/// values that are no structs.
pub fn struct_text(api_version: &str, kind: &str, object: &Value, opened: &Opened, plain: fn(&Value) -> String) -> Option<String> {
    let message = table().kind(api_version, kind)?;
    let mut writer = Writer { out: String::new(), plain };
    writer.value(object, Some(message), Some(opened));
    Some(writer.out)
}

struct Writer {
    out: String,
    plain: fn(&Value) -> String,
}

impl Writer {
    /// Writes a value of a message, or of none that is known.
    fn value(&mut self, value: &Value, message: Option<&Message>, opened: Option<&Opened>) {
        match value {
            Value::Object(map) => self.object(map, message, opened),
            Value::Array(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.value(item, message, opened.and_then(|opened| opened.below(&index.to_string())));
                }
                self.out.push(']');
            }
            other => self.out.push_str(&(self.plain)(other)),
        }
    }

    fn object(&mut self, map: &Map<String, Value>, message: Option<&Message>, opened: Option<&Opened>) {
        let fields = message.map(Message::declared).unwrap_or_default();
        let is_declared = |name: &str| opened.is_none() && fields.iter().any(|field| field.json == name);
        let mut names: Vec<&str> =
            fields.iter().map(|field| field.json).filter(|name| is_declared(name) && map.contains_key(*name)).collect();
        names.extend(map.keys().map(String::as_str).filter(|name| !is_declared(name)));
        self.out.push('{');
        for (index, name) in names.into_iter().enumerate() {
            let Some(value) = map.get(name) else { continue };
            self.comma(index);
            self.out.push_str(&(self.plain)(&Value::from(name)));
            self.out.push(':');
            let field = fields.iter().find(|field| field.json == name);
            self.member(value, field.copied(), opened.and_then(|opened| opened.below(name)));
        }
        self.out.push('}');
    }

    /// Writes the value of a field; those of a map of messages are messages themselves.
    fn member(&mut self, value: &Value, field: Option<&Field>, opened: Option<&Opened>) {
        let message = match field.map(|field| field.kind) {
            Some(Kind::Message(at)) => Some(table().message(at)),
            _ => None,
        };
        match (field.map(|field| field.form), value) {
            (Some(Form::Map), Value::Object(map)) => {
                self.out.push('{');
                for (index, (name, value)) in map.iter().enumerate() {
                    self.comma(index);
                    self.out.push_str(&(self.plain)(&Value::from(name.as_str())));
                    self.out.push(':');
                    self.value(value, message, opened.and_then(|opened| opened.below(name)));
                }
                self.out.push('}');
            }
            _ => self.value(value, message, opened),
        }
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn members_of_structs_and_of_maps() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"uid": "u", "name": "p", "labels": {"b": "1", "a": "2"}},
            "spec": {"containers": [{"image": "i", "name": "c", "livenessProbe": {"periodSeconds": 5, "httpGet": {"port": 1, "path": "/"}}}], "volumes": []}});
        let text = |opened: &Opened| struct_text("v1", "Pod", &pod, opened, Value::to_string).unwrap();
        let (head, containers) = (
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u","labels":{"a":"2","b":"1"}},"spec":"#,
            r#"{"name":"c","image":"i","livenessProbe":{"httpGet":{"path":"/","port":1},"periodSeconds":5}}"#,
        );
        assert_eq!(text(&Opened::default()), format!("{head}{{\"volumes\":[],\"containers\":[{containers}]}}}}"));
        let mut opened = Opened::default();
        opened.open("spec");
        assert_eq!(text(&opened), format!("{head}{{\"containers\":[{containers}],\"volumes\":[]}}}}"));
        opened.open("spec").open("containers").open("0");
        let item = r#"{"image":"i","livenessProbe":{"httpGet":{"path":"/","port":1},"periodSeconds":5},"name":"c"}"#;
        assert_eq!(text(&opened), format!("{head}{{\"containers\":[{item}],\"volumes\":[]}}}}"));
        assert_eq!(struct_text("example.com/v1", "Thing", &pod, &opened, Value::to_string), None);
    }
}
