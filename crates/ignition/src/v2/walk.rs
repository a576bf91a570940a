//! The walk through a config of 2.x that collects findings, and gives each the place that upstream gives it.

use std::collections::BTreeMap;

use super::report::{Kind as Severity, Place, Report};
use super::rules::{self, Flavor};
use crate::data::{Data, Struct};
use crate::node::{Node, Value};

/// A value in the text, and the text; the latter is not there where upstream has lost it.
#[derive(Clone, Copy)]
struct Source<'s, 't> {
    node: Option<&'s Node<'t>>,
    text: Option<&'t str>,
}

impl Source<'_, '_> {
    fn place(&self) -> Place {
        match (self.node, self.text) {
            (Some(node), Some(text)) => Place::behind(text, node.last),
            _ => Place::default(),
        }
    }
}

/// Findings about a whole config.
pub(super) fn config(config: &Struct, source: Option<(&Node<'_>, &str)>, flavor: Flavor) -> Report {
    let source = Source { node: source.map(|(node, _)| node), text: source.map(|(_, text)| text) };
    struct_value(config, source, flavor)
}

fn struct_value(of: &Struct, source: Source<'_, '_>, flavor: Flavor) -> Report {
    let mut report = Report::default();
    let own = rules::of_struct(of, flavor);
    let inner = if own.is_fatal() { Report::default() } else { fields(of, source, flavor) };
    if own.is_empty() && inner.is_empty() {
        return report;
    }
    let place = source.place();
    // Findings inside a broken value would only add noise.
    report.append(own.placed(&place));
    report.append(inner.placed(&place.bare()));
    report
}

fn value(data: &Data, source: Source<'_, '_>, flavor: Flavor) -> Report {
    let mut report = Report::default();
    match data {
        Data::Struct(of) => return struct_value(of, source, flavor),
        Data::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let node = source.node.map(|node| node.item(index).unwrap_or(node));
                report.append(value(item, Source { node, ..source }, flavor));
            }
            if !report.is_empty() {
                report = report.placed(&source.place().bare());
            }
        }
        _ => {}
    }
    report
}

fn fields(of: &Struct, source: Source<'_, '_>, flavor: Flavor) -> Report {
    let mut report = Report::default();
    let is_object = source.node.is_some_and(|node| matches!(node.value, Value::Object(_)));
    for (field, data) in of.entries() {
        let member = source.node.filter(|_| is_object).and_then(|node| node.member(&field.name));
        let inner = Source { node: member.map(|member| &member.node), text: source.text.filter(|_| member.is_some()) };
        let own = rules::of_field(of, &field.name, flavor);
        let below = value(data, inner, flavor);
        if own.as_ref().is_none_or(Report::is_empty) && below.is_empty() {
            continue;
        }
        let place = match (&own, inner.node) {
            (Some(_), Some(_)) => inner.place(),
            _ => Source { text: inner.text, ..source }.place(),
        };
        report.append(own.unwrap_or_default().placed(&place));
        report.append(below.placed(&place));
    }
    if let (Some(node), Some(text)) = (source.node, source.text) {
        unknown_keys(of, node, text, &mut report);
    }
    report
}

/// Keys that no field has; upstream lists them in any order, here they are sorted.
fn unknown_keys(of: &Struct, node: &Node<'_>, text: &str, report: &mut Report) {
    let Value::Object(members) = &node.value else { return };
    let known: BTreeMap<&str, usize> = members.iter().map(|member| (member.key.as_str(), member.key_end)).collect();
    for (key, end) in known.into_iter().filter(|(key, _)| of.of().index(key).is_none()) {
        let place = Place::behind(text, end);
        report.add_at(Severity::Warning, format_args!("Config has unrecognized key: {key}"), place.clone());
        if let Some(field) = of.of().fields.iter().find(|field| field.name.eq_ignore_ascii_case(key)) {
            report.add_at(Severity::Info, format_args!("Did you mean {} instead of {key}", field.name), place);
        }
    }
}
