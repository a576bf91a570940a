//! Tables for `kubectl get` (KAPI-REST-06): built-in columns by `mainstay-kinds`, those of custom resources by JSONPath.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use mainstay_kinds::Gvk;
use serde_json::{Map, Value, json};

use crate::entry::Entry;
use crate::error::{ApiError, Result};
use crate::jsonpath;
use crate::object::{self, meta};
use crate::request::ApiRequest;
use crate::request::negotiate::{Format, MetaVersion};
use crate::request::options::Include;
use crate::served::Served;

/// The columns of one request's table.
pub struct Columns {
    include: Include,
    problem: Option<String>,
    custom: Option<Arc<crate::crd::CustomVersion>>,
    gvk: Gvk,
    meta: MetaVersion,
}

impl Columns {
    /// The table of a request.
    pub fn of(request: &ApiRequest, served: &Served) -> Self {
        let (include, problem) = match request.query.first("includeObject").unwrap_or_default() {
            "" | "Metadata" => (Include::Metadata, None),
            "Object" => (Include::Object, None),
            "None" => (Include::None, None),
            other => (
                Include::Metadata,
                Some(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                )),
            ),
        };
        // Scales have columns of their own, but those of custom resources show the columns of the resource.
        let gvk = match request.info.subresource.as_str() {
            "scale" => Gvk::new("autoscaling", "v1", "Scale"),
            _ => served.gvk(),
        };
        Self { include, problem, custom: served.custom.clone(), gvk, meta: request.agreed.meta }
    }

    /// The parts that rows hold beside their cells; `None` if tables cannot be made as asked.
    pub fn include(&self) -> Option<Include> {
        self.problem.is_none().then_some(self.include)
    }

    /// The table of these objects; without column definitions for all but the first event of a watch.
    pub fn table(&self, objects: &mut [Value], metadata: &Value, definitions: bool) -> Result<Value> {
        if let Some(problem) = &self.problem {
            return Err(ApiError::bad_request(problem.clone()));
        }
        let mut rows = Vec::with_capacity(objects.len());
        for object in objects.iter_mut() {
            let is_counted = self.include == Include::Metadata && self.gvk.group == "apps" && self.gvk.kind == "DaemonSet";
            if is_counted {
                forget_count(object);
            }
            let cells = match &self.custom {
                Some(custom) => custom_cells(custom, object),
                None => built_in_cells(&self.gvk, object),
            };
            // Everything is moved: `json!` would copy each row as often as it is wrapped.
            let mut row = Map::from_iter([("cells".to_owned(), Value::from(cells.cells))]);
            if !cells.conditions.is_empty() {
                row.insert("conditions".to_owned(), cells.conditions.into());
            }
            let shown = match self.include {
                Include::None => Value::Null,
                Include::Metadata => object::partial(object, self.meta),
                Include::Object => object.take(),
            };
            row.insert("object".to_owned(), shown);
            rows.push(Value::Object(row));
        }
        let columns = if definitions {
            match &self.custom {
                Some(custom) => custom_definitions(custom),
                None => built_in_columns(&self.gvk),
            }
        } else {
            Vec::new()
        };
        let columns = if definitions { Value::from(columns) } else { Value::Null };
        let mut table = json!({"kind": "Table", "apiVersion": self.meta.api_version(), "metadata": metadata, "columnDefinitions": columns});
        table["rows"] = if rows.is_empty() && self.has_no_rows() { Value::Null } else { rows.into() };
        Ok(table)
    }
}

impl Columns {
    /// Returns true for the one kind that Kubernetes prints by its default: it has no rows where others have an empty list of them.
    fn has_no_rows(&self) -> bool {
        (self.gvk.group.as_str(), self.gvk.kind.as_str()) == ("apiextensions.k8s.io", "CustomResourceDefinition")
    }

    /// The table of a list as JSON, where rows hold the metadata of built-in objects: it is copied as it is stored, row by row, since
    /// making trees of it costs several times what the cells cost.
    fn write(&self, entries: &[Arc<Entry>], metadata: &Value) -> Result<Bytes> {
        let mut out = BytesMut::with_capacity(8_192 + entries.iter().map(|entry| entry.stored.len() / 2 + 256).sum::<usize>());
        let columns = built_in_columns(&self.gvk);
        let head = json!({"kind": "Table", "apiVersion": self.meta.api_version(), "metadata": metadata, "columnDefinitions": columns});
        let head = head.to_string();
        out.put_slice(head.strip_suffix('}').unwrap_or(&head).as_bytes());
        if entries.is_empty() && self.has_no_rows() {
            out.put_slice(b",\"rows\":null}\n");
            return Ok(out.freeze());
        }
        out.put_slice(b",\"rows\":[");
        let partial = object::head(self.meta.api_version(), "PartialObjectMetadata");
        for (index, entry) in entries.iter().enumerate() {
            let refused = |error: serde_json::Error| ApiError::internal(format!("a stored object is not JSON: {error}"));
            let (object, metadata) = object::glance(&entry.stored).map_err(refused)?;
            let cells = built_in_cells(&self.gvk, &object);
            out.put_slice(if index == 0 { b"{\"cells\":" } else { b",{\"cells\":" });
            out.put_slice(Value::from(cells.cells).to_string().as_bytes());
            if !cells.conditions.is_empty() {
                out.put_slice(b",\"conditions\":");
                out.put_slice(Value::from(cells.conditions).to_string().as_bytes());
            }
            out.put_slice(b",\"object\":");
            object::write(&mut out, &partial, metadata.get().as_bytes(), 1, entry.revision);
            out.put_slice(b"}}");
        }
        out.put_slice(b"]}\n");
        Ok(out.freeze())
    }
}

/// Metadata of a DaemonSet in a table comes from Kubernetes' internal type, where the count of templates is no annotation.
fn forget_count(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            object::metadata_mut(object).remove("annotations");
        }
    }
}

/// The cells of one row.
#[derive(Default)]
pub struct Cells {
    /// In the order of the columns.
    pub cells: Vec<Value>,
    /// Conditions of the row (a pod that is over is `Completed`).
    pub conditions: Vec<Value>,
}

/// The table of a list or an object.
pub fn of(request: &ApiRequest, served: &Served, objects: &mut [Value], metadata: &Value) -> Result<Value> {
    Columns::of(request, served).table(objects, metadata, true)
}

/// The table of a list, in a format.
pub fn page(request: &ApiRequest, served: &Served, entries: &[Arc<Entry>], metadata: &Value) -> Result<Page> {
    let columns = Columns::of(request, served);
    let copied = columns.include() == Some(Include::Metadata)
        && columns.custom.is_none()
        && served.sends_stored_bytes()
        && !served.is("apps", "daemonsets");
    if copied && request.agreed.format == Format::Json {
        return Ok(Page::Written(columns.write(entries, metadata)?));
    }
    let values = entries.iter().map(|entry| served.read(&entry.stored, entry.revision).map(|loaded| loaded.value));
    columns.table(&mut values.collect::<Result<Vec<Value>>>()?, metadata, true).map(Page::Value)
}

/// The table of a list, as far as it was made.
pub enum Page {
    /// The text as it is sent, in JSON.
    Written(Bytes),
    /// The table, to be written.
    Value(Value),
}

/// The columns of a built-in kind's table.
fn built_in_columns(gvk: &Gvk) -> Vec<Value> {
    mainstay_kinds::table(gvk).iter().map(|column| json!(column)).collect()
}

/// The cells of a built-in object's row.
fn built_in_cells(gvk: &Gvk, object: &Value) -> Cells {
    let cells = mainstay_kinds::row(gvk, object, jiff::Timestamp::now());
    let is_pod = gvk.group.is_empty() && gvk.kind == "Pod";
    let over = match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") if is_pod => Some(("Succeeded", "The pod has completed successfully.")),
        Some("Failed") if is_pod => Some(("Failed", "The pod failed.")),
        _ => None,
    };
    let condition = |(reason, message)| json!({"type": "Completed", "status": "True", "reason": reason, "message": message});
    Cells { cells, conditions: over.map(condition).into_iter().collect() }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

/// The description of the name column in Kubernetes.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
fn custom_definitions(custom: &crate::crd::CustomVersion) -> Vec<Value> {
    let mut all = vec![column("Name", "string", "name", NAME, 0)];
    all.extend(custom.columns.iter().map(|one| {
        let shown = match one.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {}", one.json_path),
            description => description.to_owned(),
        };
        column(&one.name, &one.kind, &one.format, &shown, one.priority)
    }));
    all
}

fn custom_cells(custom: &crate::crd::CustomVersion, object: &Value) -> Cells {
    let mut cells = vec![Value::from(meta(object, "name"))];
    cells.extend(custom.columns.iter().map(|one| cell(one, object)));
    Cells { cells, conditions: Vec::new() }
}

fn cell(column: &mainstay_schema::crd::Column, object: &Value) -> Value {
    let found = jsonpath::find(&column.json_path, object);
    let Some(first) = found.first() else { return Value::Null };
    match (column.kind.as_str(), *first) {
        ("integer", Value::Number(number)) => match number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)) {
            Some(whole) => whole.into(),
            None => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*first).clone(),
        ("string", Value::Null) => "<no value>".into(),
        ("string", _) => jsonpath::text(&found[..1]).into(),
        ("date", Value::String(time)) => crate::clock::age(time).map_or_else(|| "<invalid>".into(), Value::from),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-REST-06: rows whose metadata is copied are those whose metadata is read.
    #[test]
    fn copied_rows() {
        let pod = |name: &str, phase: &str| {
            json!({
                "metadata": {
                    "name": name, "namespace": "a", "labels": {"x": "}\"{"}, "creationTimestamp": "2020-01-01T00:00:00Z",
                    "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:metadata": {"f:managedFields": {}}}}],
                },
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
                "status": {"phase": phase, "metadata": {"managedFields": 1}},
            })
        };
        let pods = [pod("one", "Running"), pod("two", "Succeeded"), json!({"metadata": {"name": "three"}})];
        let entry = |(index, pod): (usize, &Value)| {
            Arc::new(Entry::of(format!("a/{index}"), object::encode("v1", "Pod", pod), 7 + index as u64).unwrap())
        };
        let entries: Vec<_> = pods.iter().enumerate().map(entry).collect();
        let columns =
            Columns { include: Include::Metadata, problem: None, custom: None, gvk: Gvk::new("", "v1", "Pod"), meta: MetaVersion::V1 };
        let list = json!({"resourceVersion": "9"});
        let mut values: Vec<Value> = entries.iter().map(|entry| entry.value()).collect();
        let expected = columns.table(&mut values, &list, true).unwrap();
        let written: Value = serde_json::from_slice(&columns.write(&entries, &list).unwrap()).unwrap();
        assert_eq!(written, expected);
        assert_eq!(written["rows"][1]["conditions"][0]["reason"], "Succeeded");
        assert_eq!(columns.write(&[], &list).unwrap().last(), Some(&b'\n'));
    }
}
