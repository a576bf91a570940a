//! The disks of simulated nodes, each a ConfigMap: the configuration that was written last, compressed, and everything else to be read and
//! edited (MACH-NODE-07).

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use mainstay_machine_config_core::daemon::Disk;
use mainstay_machine_config_core::machine_config::{MachineConfig, MachineConfigSpec};
use serde_json::{Value, json};

use crate::{Error, NAMESPACE};

const DISK: &str = "disk.json";
const CONFIG: &str = "currentconfig.json.gz";
const NAME: &str = "currentconfig";
/// The largest configuration that is unpacked.
const LARGEST: u64 = 16 << 20;

/// Returns the name of a node's ConfigMap.
pub fn disk_name(node: &str) -> String {
    format!("simulated-disk-{node}")
}

/// Reads a disk from its ConfigMap.
///
/// # Errors
/// It was edited into something that is no disk.
pub fn read_disk(node: &str, map: &Value) -> Result<Disk, Error> {
    let failed = |problem: String| Error::Disk { node: node.to_owned(), problem };
    let data = |key: &str| map["data"].get(key).and_then(Value::as_str);
    let text = data(DISK).ok_or_else(|| failed(format!("data.{DISK} is missing")))?;
    let mut disk: Disk = serde_json::from_str(text).map_err(|error| failed(format!("data.{DISK}: {error}")))?;
    let packed = map["binaryData"].get(CONFIG).and_then(Value::as_str).ok_or_else(|| failed(format!("binaryData.{CONFIG} is missing")))?;
    let packed = STANDARD.decode(packed).map_err(|error| failed(format!("binaryData.{CONFIG}: {error}")))?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice())
        .take(LARGEST)
        .read_to_string(&mut text)
        .map_err(|error| failed(format!("binaryData.{CONFIG}: {error}")))?;
    let spec: MachineConfigSpec = serde_json::from_str(&text).map_err(|error| failed(format!("binaryData.{CONFIG}: {error}")))?;
    disk.config = MachineConfig { name: data(NAME).unwrap_or_default().to_owned(), labels: None, spec };
    Ok(disk)
}

/// Returns the ConfigMap of a disk.
pub(crate) fn object(node: &Value, disk: &Disk) -> Result<Value, Error> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let failed = |error: std::io::Error| Error::Disk { node: name.to_owned(), problem: error.to_string() };
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(serde_json::to_string(&disk.config.spec)?.as_bytes()).map_err(failed)?;
    let packed = packed.finish().map_err(failed)?;
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}]);
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": disk_name(name), "namespace": NAMESPACE, "labels": {"mainstay.dev/simulated": "true"}, "ownerReferences": owner,
        },
        "data": {DISK: format!("{:#}\n", serde_json::to_value(disk)?), NAME: disk.config.name},
        "binaryData": {CONFIG: STANDARD.encode(packed)},
    }))
}
