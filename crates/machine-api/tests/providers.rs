//! What this program has no part of.

use std::path::Path;

/// MACH-PROV-07: no SDK of a cloud is compiled in.
#[test]
fn no_sdk_of_a_cloud() {
    let lock = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock")).unwrap();
    let packages: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(packages.contains(&"kube") && packages.contains(&"mainstay-machine-api"), "the file is read");
    let clouds =
        ["aws-", "aws_", "rusoto", "azure", "google-cloud", "gcloud", "gcp", "openstack", "vsphere", "nutanix", "ibmcloud", "digitalocean"];
    let sdks: Vec<&&str> = packages.iter().filter(|name| clouds.iter().any(|cloud| name.starts_with(cloud))).collect();
    // The library of primitives that rustls may use is no SDK.
    let sdks: Vec<&&&str> = sdks.iter().filter(|name| !name.starts_with("aws-lc")).collect();
    assert!(sdks.is_empty(), "{sdks:?}");
}
