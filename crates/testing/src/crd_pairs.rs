//! The recorded pairs of consecutive versions of real CRDs, `crd-pairs`.

use std::sync::LazyLock;

use serde_json::Value;

use crate::data;

/// Two versions of a CRD, and upstream's verdict on the upgrade from one to the other.
pub struct Pair {
    /// The folder of both, below `crd-pairs`.
    pub folder: String,
    /// The name of the CRD.
    pub name: String,
    /// The older version, as YAML.
    pub old: String,
    /// The newer version, as YAML.
    pub new: String,
    /// Whether upstream accepts the upgrade.
    pub safe: bool,
    /// Upstream's words if it refuses the upgrade.
    pub error: Option<String>,
}

impl Pair {
    fn read(record: &Value) -> Self {
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        let folder = text("dir").expect("a folder");
        // The same key with its tag left out.
        let yaml = |name: &str| data::text(&format!("crd-pairs/{folder}/{name}.yaml")).expect("a CRD").replace("!!merge <<:", "<<:");
        Self {
            name: text("crd").expect("a name"),
            old: yaml("old"),
            new: yaml("new"),
            safe: record["safe"].as_bool().expect("a verdict"),
            error: text("error").filter(|error| !error.is_empty()),
            folder,
        }
    }
}

/// All pairs in their recorded order.
pub fn pairs() -> Option<&'static [Pair]> {
    static PAIRS: LazyLock<Option<Vec<Pair>>> =
        LazyLock::new(|| Some(data::json("crd-pairs/index.json")?.as_array().expect("pairs").iter().map(Pair::read).collect()));
    PAIRS.as_deref()
}
