//! The clouds whose credentials are known by their names.

/// A cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names of the platforms")]
pub enum Cloud {
    Aws,
    Azure,
    Gcp,
    OpenStack,
    Ovirt,
    VSphere,
    Kubevirt,
}

impl Cloud {
    /// All clouds.
    pub const ALL: [Self; 7] = [Self::Aws, Self::Azure, Self::Gcp, Self::OpenStack, Self::Ovirt, Self::VSphere, Self::Kubevirt];

    /// Platform, kind of the provider specification, root Secret, and name in metrics.
    const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Aws => ("AWS", "AWSProviderSpec", "aws-creds", "aws"),
            Self::Azure => ("Azure", "AzureProviderSpec", "azure-credentials", "azure"),
            Self::Gcp => ("GCP", "GCPProviderSpec", "gcp-credentials", "gcp"),
            Self::OpenStack => ("OpenStack", "OpenStackProviderSpec", "openstack-credentials", "openstack"),
            Self::Ovirt => ("oVirt", "OvirtProviderSpec", "ovirt-credentials", "ovirt"),
            Self::VSphere => ("VSphere", "VSphereProviderSpec", "vsphere-creds", "vsphere"),
            Self::Kubevirt => ("KubeVirt", "KubevirtProviderSpec", "kubevirt-credentials", "kubevirt"),
        }
    }

    /// The cloud of a platform of Infrastructure; `None` for a platform without credentials.
    pub fn of_platform(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cloud| cloud.platform() == name)
    }

    /// The cloud of a kind of provider specification.
    pub fn of_provider_spec(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cloud| cloud.provider_spec() == kind)
    }

    /// The name of the platform.
    pub const fn platform(self) -> &'static str {
        self.names().0
    }

    /// The kind of the provider specification.
    pub const fn provider_spec(self) -> &'static str {
        self.names().1
    }

    /// The name of the root Secret.
    pub const fn root_secret(self) -> &'static str {
        self.names().2
    }

    /// The name in metrics.
    pub const fn metric(self) -> &'static str {
        self.names().3
    }

    /// The keys that a Secret with long-lived credentials of this cloud must have; none where any will do.
    pub const fn root_keys(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &["aws_access_key_id", "aws_secret_access_key"],
            Self::Azure => &["azure_client_id", "azure_client_secret", "azure_tenant_id", "azure_subscription_id"],
            Self::Gcp => &["service_account.json"],
            Self::OpenStack => &["clouds.yaml"],
            Self::Ovirt | Self::VSphere | Self::Kubevirt => &[],
        }
    }
}
