//! APIs as OLM classic names and hashes them.

use std::fmt;

use serde::Deserialize;

/// An API: group, version and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct Api {
    /// Its group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}

/// `Kind (group/version)`, as the resolver writes it.
impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.kind, self.group, self.version)
    }
}

impl Api {
    /// The JSON of an `olm.gvk` property as upstream writes it: the fields in the order of the registry's struct.
    pub(crate) fn provided_json(&self) -> String {
        self.json(&["group", "kind", "version"])
    }

    /// The JSON of an `olm.gvk.required` property that upstream makes.
    pub(crate) fn required_json(&self) -> String {
        self.json(&["group", "version", "kind"])
    }

    fn json(&self, order: &[&str]) -> String {
        use mainstay_golang::json::{Html, write_string};
        let mut out = String::from("{");
        for (at, name) in order.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            let value = match *name {
                "group" => &self.group,
                "version" => &self.version,
                _ => &self.kind,
            };
            write_string(&mut out, name, Html::Escaped);
            out.push(':');
            write_string(&mut out, value, Html::Escaped);
        }
        out.push('}');
        out
    }
}
