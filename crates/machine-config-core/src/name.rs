//! The names of rendered MachineConfigs.

use md5::{Digest as _, Md5};

use crate::machine_config::MachineConfigSpec;

/// The salt that upstream hashes before the content.
const SALT: [u8; 80] = [
    16, 124, 206, 228, 139, 56, 175, 175, 79, 229, 134, 118, 157, 154, 211, 110, 25, 93, 47, 253, 172, 106, 37, 7, 174, 13, 160, 185, 110,
    17, 87, 52, 219, 131, 12, 206, 218, 141, 116, 135, 188, 181, 192, 151, 233, 62, 126, 165, 64, 83, 179, 119, 15, 168, 208, 197, 146,
    107, 58, 227, 133, 188, 238, 26, 33, 26, 235, 202, 32, 173, 31, 234, 41, 144, 148, 79, 6, 206, 23, 22,
];

/// The name of a pool's rendered MachineConfig: the pool, and a hash of the content as YAML.
pub fn rendered_name(pool: &str, spec: &MachineConfigSpec) -> String {
    let mut hash = Md5::new();
    hash.update(SALT);
    hash.update(mainstay_yaml::to_string(&spec.to_object()));
    let digits: String = hash.finalize().iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"));
    format!("rendered-{pool}-{digits}")
}
