//! The CRD manifests of the platform's kinds: credentials, proxy, network, infrastructure.

use crate::classic::{CONFIG_GROUP, Kind, Version, manifest};
use crate::cloud_credential_v1::{CloudCredentialSpec, CloudCredentialStatus, CredentialsRequestSpec, CredentialsRequestStatus};
use crate::manifest::Manifest;
use crate::platform_v1::{
    AuthenticationSpec, AuthenticationStatus, InfrastructureSpec, InfrastructureStatus, NetworkSettings, ProxySpec, ProxyStatus,
};

/// The group of CredentialsRequest.
pub const CREDENTIALS_GROUP: &str = "cloudcredential.openshift.io";
/// The group of operators' own settings.
pub const OPERATOR_GROUP: &str = "operator.openshift.io";

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../manifests/platform/", $name)))
    };
}

/// The checked-in manifests by file.
const FILES: [(&str, &str); 6] = [
    file!("cloudcredential.openshift.io_credentialsrequests.yaml"),
    file!("config.openshift.io_authentications.yaml"),
    file!("config.openshift.io_infrastructures.yaml"),
    file!("config.openshift.io_networks.yaml"),
    file!("config.openshift.io_proxies.yaml"),
    file!("operator.openshift.io_cloudcredentials.yaml"),
];

/// The manifests of the platform's kinds, as they are checked in.
///
/// # Errors
/// When a checked-in file is no YAML.
pub fn platform_manifests() -> Result<Vec<Manifest>, mainstay_yaml::Error> {
    let read = |(file, text): &(&str, &str)| Ok(Manifest { file: (*file).to_owned(), definition: mainstay_yaml::parse(text)? });
    FILES.iter().map(read).collect()
}

/// The definitions as the types give them.
pub fn platform_definitions() -> Vec<Manifest> {
    const SPEC: &[&str] = &["spec"];
    let cluster = |group, name, plural, description, version| Kind {
        group,
        name,
        plural,
        short_names: &[],
        scope: "Cluster",
        description,
        columns: &[],
        versions: vec![version],
    };
    vec![
        manifest(Kind {
            group: CREDENTIALS_GROUP,
            name: "CredentialsRequest",
            plural: "credentialsrequests",
            short_names: &[],
            scope: "Namespaced",
            description: "A request for a Secret that opens the cloud.",
            columns: &[],
            versions: vec![Version::of::<CredentialsRequestSpec, CredentialsRequestStatus>("v1", SPEC)],
        }),
        manifest(cluster(
            CONFIG_GROUP,
            "Authentication",
            "authentications",
            "How users and service accounts are known; only the object named cluster counts.",
            Version::of::<AuthenticationSpec, AuthenticationStatus>("v1", SPEC),
        )),
        manifest(cluster(
            CONFIG_GROUP,
            "Infrastructure",
            "infrastructures",
            "The platform that the cluster is on; only the object named cluster counts.",
            Version::of::<InfrastructureSpec, InfrastructureStatus>("v1", SPEC),
        )),
        manifest(cluster(
            CONFIG_GROUP,
            "Network",
            "networks",
            "The networks of the cluster; only the object named cluster counts.",
            Version::of::<NetworkSettings, NetworkSettings>("v1", SPEC),
        )),
        manifest(cluster(
            CONFIG_GROUP,
            "Proxy",
            "proxies",
            "The proxy of the cluster; only the object named cluster counts.",
            Version::of::<ProxySpec, ProxyStatus>("v1", SPEC),
        )),
        manifest(cluster(
            OPERATOR_GROUP,
            "CloudCredential",
            "cloudcredentials",
            "Settings of the cloud credential operator; only the object named cluster counts.",
            Version::of::<CloudCredentialSpec, CloudCredentialStatus>("v1", SPEC),
        )),
    ]
}
