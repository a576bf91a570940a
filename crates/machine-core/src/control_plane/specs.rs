//! Tables of the provider specs of clouds: their fields, in the types that upstream's API gives them.

use mainstay_golang::typed::{Absent, Field, GoStruct, Kind, Refused};
use mainstay_schema::quantity::{QuantityError, written};
use serde_json::Value;

const fn text(name: &'static str, absent: Absent) -> Field {
    Field { name, kind: Kind::Text("string"), absent }
}

const QUANTITY: Kind = Kind::Parsed("resource.Quantity", quantity, "\"0\"");

/// The text that Kubernetes writes of an amount.
fn quantity(value: &Value) -> Result<Value, Refused> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(Refused::Said(QuantityError::Format.to_string())),
    };
    written(&text).map(Value::String).map_err(|error| Refused::Said(error.to_string()))
}

static OBJECT_META: GoStruct = GoStruct {
    name: "v1.ObjectMeta",
    fields: &[
        text("name", Absent::Omitted),
        text("generateName", Absent::Omitted),
        text("namespace", Absent::Omitted),
        text("selfLink", Absent::Omitted),
        text("uid", Absent::Omitted),
        text("resourceVersion", Absent::Omitted),
        Field { name: "generation", kind: Kind::Int64, absent: Absent::Omitted },
        text("creationTimestamp", Absent::Omitted),
        text("deletionTimestamp", Absent::OmittedPointer),
        Field { name: "deletionGracePeriodSeconds", kind: Kind::Int64, absent: Absent::OmittedPointer },
        Field { name: "labels", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "annotations", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "ownerReferences", kind: Kind::Any, absent: Absent::Omitted },
        Field { name: "finalizers", kind: Kind::Texts, absent: Absent::Omitted },
        Field { name: "managedFields", kind: Kind::Any, absent: Absent::Omitted },
    ],
};

static FILTER: GoStruct = GoStruct {
    name: "v1beta1.Filter",
    fields: &[text("name", Absent::Zero), Field { name: "values", kind: Kind::Texts, absent: Absent::Omitted }],
};

static AWS_RESOURCE_REFERENCE: GoStruct = GoStruct {
    name: "v1beta1.AWSResourceReference",
    fields: &[
        text("id", Absent::OmittedPointer),
        text("arn", Absent::OmittedPointer),
        Field { name: "filters", kind: Kind::List(&FILTER), absent: Absent::Omitted },
    ],
};

static CPU_OPTIONS: GoStruct = GoStruct {
    name: "v1beta1.CPUOptions",
    fields: &[Field {
        name: "confidentialCompute",
        kind: Kind::Text("v1beta1.AWSConfidentialComputePolicy"),
        absent: Absent::OmittedPointer,
    }],
};

static TAG_SPECIFICATION: GoStruct =
    GoStruct { name: "v1beta1.TagSpecification", fields: &[text("name", Absent::Zero), text("value", Absent::Zero)] };

static LOCAL_OBJECT_REFERENCE: GoStruct = GoStruct { name: "v1.LocalObjectReference", fields: &[text("name", Absent::Omitted)] };

static DEDICATED_HOST: GoStruct = GoStruct { name: "v1beta1.DedicatedHost", fields: &[text("id", Absent::Omitted)] };

static HOST_PLACEMENT: GoStruct = GoStruct {
    name: "v1beta1.HostPlacement",
    fields: &[
        Field { name: "affinity", kind: Kind::Text("v1beta1.HostAffinity"), absent: Absent::OmittedPointer },
        Field { name: "dedicatedHost", kind: Kind::Struct(&DEDICATED_HOST), absent: Absent::OmittedPointer },
    ],
};

static PLACEMENT: GoStruct = GoStruct {
    name: "v1beta1.Placement",
    fields: &[
        text("region", Absent::Omitted),
        text("availabilityZone", Absent::Omitted),
        Field { name: "tenancy", kind: Kind::Text("v1beta1.InstanceTenancy"), absent: Absent::Omitted },
        Field { name: "host", kind: Kind::Struct(&HOST_PLACEMENT), absent: Absent::OmittedPointer },
    ],
};

static LOAD_BALANCER_REFERENCE: GoStruct = GoStruct {
    name: "v1beta1.LoadBalancerReference",
    fields: &[text("name", Absent::Zero), Field { name: "type", kind: Kind::Text("v1beta1.AWSLoadBalancerType"), absent: Absent::Zero }],
};

static EBS_BLOCK_DEVICE_SPEC: GoStruct = GoStruct {
    name: "v1beta1.EBSBlockDeviceSpec",
    fields: &[
        Field { name: "deleteOnTermination", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "encrypted", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "kmsKey", kind: Kind::Struct(&AWS_RESOURCE_REFERENCE), absent: Absent::Zero },
        Field { name: "iops", kind: Kind::Int64, absent: Absent::OmittedPointer },
        Field { name: "throughputMib", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "volumeSize", kind: Kind::Int64, absent: Absent::OmittedPointer },
        text("volumeType", Absent::OmittedPointer),
    ],
};

static BLOCK_DEVICE_MAPPING_SPEC: GoStruct = GoStruct {
    name: "v1beta1.BlockDeviceMappingSpec",
    fields: &[
        text("deviceName", Absent::OmittedPointer),
        Field { name: "ebs", kind: Kind::Struct(&EBS_BLOCK_DEVICE_SPEC), absent: Absent::OmittedPointer },
        text("noDevice", Absent::OmittedPointer),
        text("virtualName", Absent::OmittedPointer),
    ],
};

static SPOT_MARKET_OPTIONS: GoStruct = GoStruct { name: "v1beta1.SpotMarketOptions", fields: &[text("maxPrice", Absent::OmittedPointer)] };

static METADATA_SERVICE_OPTIONS: GoStruct = GoStruct {
    name: "v1beta1.MetadataServiceOptions",
    fields: &[Field { name: "authentication", kind: Kind::Text("v1beta1.MetadataServiceAuthentication"), absent: Absent::Omitted }],
};

/// Provider spec of Amazon Web Services.
pub(super) static AWS: GoStruct = GoStruct {
    name: "v1beta1.AWSMachineProviderConfig",
    fields: &[
        text("apiVersion", Absent::Omitted),
        text("kind", Absent::Omitted),
        Field { name: "metadata", kind: Kind::Struct(&OBJECT_META), absent: Absent::Zero },
        Field { name: "ami", kind: Kind::Struct(&AWS_RESOURCE_REFERENCE), absent: Absent::Zero },
        text("instanceType", Absent::Zero),
        Field { name: "cpuOptions", kind: Kind::Struct(&CPU_OPTIONS), absent: Absent::OmittedPointer },
        Field { name: "tags", kind: Kind::List(&TAG_SPECIFICATION), absent: Absent::Omitted },
        Field { name: "iamInstanceProfile", kind: Kind::Struct(&AWS_RESOURCE_REFERENCE), absent: Absent::OmittedPointer },
        Field { name: "userDataSecret", kind: Kind::Struct(&LOCAL_OBJECT_REFERENCE), absent: Absent::OmittedPointer },
        Field { name: "credentialsSecret", kind: Kind::Struct(&LOCAL_OBJECT_REFERENCE), absent: Absent::OmittedPointer },
        text("keyName", Absent::OmittedPointer),
        Field { name: "deviceIndex", kind: Kind::Int64, absent: Absent::Zero },
        Field { name: "publicIp", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "networkInterfaceType", kind: Kind::Text("v1beta1.AWSNetworkInterfaceType"), absent: Absent::Omitted },
        Field { name: "securityGroups", kind: Kind::List(&AWS_RESOURCE_REFERENCE), absent: Absent::Omitted },
        Field { name: "subnet", kind: Kind::Struct(&AWS_RESOURCE_REFERENCE), absent: Absent::Zero },
        Field { name: "placement", kind: Kind::Struct(&PLACEMENT), absent: Absent::Zero },
        Field { name: "loadBalancers", kind: Kind::List(&LOAD_BALANCER_REFERENCE), absent: Absent::Omitted },
        Field { name: "blockDevices", kind: Kind::List(&BLOCK_DEVICE_MAPPING_SPEC), absent: Absent::Omitted },
        Field { name: "spotMarketOptions", kind: Kind::Struct(&SPOT_MARKET_OPTIONS), absent: Absent::OmittedPointer },
        Field { name: "metadataServiceOptions", kind: Kind::Struct(&METADATA_SERVICE_OPTIONS), absent: Absent::Zero },
        text("placementGroupName", Absent::Omitted),
        Field { name: "placementGroupPartition", kind: Kind::Int32, absent: Absent::OmittedPointer },
        text("capacityReservationId", Absent::Zero),
        Field { name: "marketType", kind: Kind::Text("v1beta1.MarketType"), absent: Absent::Omitted },
    ],
};

static SECRET_REFERENCE: GoStruct =
    GoStruct { name: "v1.SecretReference", fields: &[text("name", Absent::Omitted), text("namespace", Absent::Omitted)] };

static IMAGE: GoStruct = GoStruct {
    name: "v1beta1.Image",
    fields: &[
        text("publisher", Absent::Zero),
        text("offer", Absent::Zero),
        text("sku", Absent::Zero),
        text("version", Absent::Zero),
        text("resourceID", Absent::Zero),
        Field { name: "type", kind: Kind::Text("v1beta1.AzureImageType"), absent: Absent::Omitted },
    ],
};

static DISK_ENCRYPTION_SET_PARAMETERS: GoStruct =
    GoStruct { name: "v1beta1.DiskEncryptionSetParameters", fields: &[text("id", Absent::Omitted)] };

static VM_DISK_SECURITY_PROFILE: GoStruct = GoStruct {
    name: "v1beta1.VMDiskSecurityProfile",
    fields: &[
        Field { name: "diskEncryptionSet", kind: Kind::Struct(&DISK_ENCRYPTION_SET_PARAMETERS), absent: Absent::Zero },
        Field { name: "securityEncryptionType", kind: Kind::Text("v1beta1.SecurityEncryptionTypes"), absent: Absent::Omitted },
    ],
};

static OS_DISK_MANAGED_DISK_PARAMETERS: GoStruct = GoStruct {
    name: "v1beta1.OSDiskManagedDiskParameters",
    fields: &[
        text("storageAccountType", Absent::Zero),
        Field { name: "diskEncryptionSet", kind: Kind::Struct(&DISK_ENCRYPTION_SET_PARAMETERS), absent: Absent::OmittedPointer },
        Field { name: "securityProfile", kind: Kind::Struct(&VM_DISK_SECURITY_PROFILE), absent: Absent::Zero },
    ],
};

static DISK_SETTINGS: GoStruct = GoStruct { name: "v1beta1.DiskSettings", fields: &[text("ephemeralStorageLocation", Absent::Omitted)] };

static OS_DISK: GoStruct = GoStruct {
    name: "v1beta1.OSDisk",
    fields: &[
        text("osType", Absent::Zero),
        Field { name: "managedDisk", kind: Kind::Struct(&OS_DISK_MANAGED_DISK_PARAMETERS), absent: Absent::Zero },
        Field { name: "diskSizeGB", kind: Kind::Int32, absent: Absent::Zero },
        Field { name: "diskSettings", kind: Kind::Struct(&DISK_SETTINGS), absent: Absent::Zero },
        text("cachingType", Absent::Omitted),
    ],
};

static DATA_DISK_MANAGED_DISK_PARAMETERS: GoStruct = GoStruct {
    name: "v1beta1.DataDiskManagedDiskParameters",
    fields: &[
        Field { name: "storageAccountType", kind: Kind::Text("v1beta1.StorageAccountType"), absent: Absent::Zero },
        Field { name: "diskEncryptionSet", kind: Kind::Struct(&DISK_ENCRYPTION_SET_PARAMETERS), absent: Absent::OmittedPointer },
    ],
};

static DATA_DISK: GoStruct = GoStruct {
    name: "v1beta1.DataDisk",
    fields: &[
        text("nameSuffix", Absent::Zero),
        Field { name: "diskSizeGB", kind: Kind::Int32, absent: Absent::Zero },
        Field { name: "managedDisk", kind: Kind::Struct(&DATA_DISK_MANAGED_DISK_PARAMETERS), absent: Absent::Zero },
        Field { name: "lun", kind: Kind::Int32, absent: Absent::Zero },
        Field { name: "cachingType", kind: Kind::Text("v1beta1.CachingTypeOption"), absent: Absent::Omitted },
        Field { name: "deletionPolicy", kind: Kind::Text("v1beta1.DiskDeletionPolicyType"), absent: Absent::Zero },
    ],
};

static SPOT_VM_OPTIONS: GoStruct =
    GoStruct { name: "v1beta1.SpotVMOptions", fields: &[Field { name: "maxPrice", kind: QUANTITY, absent: Absent::OmittedPointer }] };

static UEFI_SETTINGS: GoStruct = GoStruct {
    name: "v1beta1.UEFISettings",
    fields: &[
        Field { name: "secureBoot", kind: Kind::Text("v1beta1.SecureBootPolicy"), absent: Absent::Omitted },
        Field {
            name: "virtualizedTrustedPlatformModule",
            kind: Kind::Text("v1beta1.VirtualizedTrustedPlatformModulePolicy"),
            absent: Absent::Omitted,
        },
    ],
};

static CONFIDENTIAL_VM: GoStruct = GoStruct {
    name: "v1beta1.ConfidentialVM",
    fields: &[Field { name: "uefiSettings", kind: Kind::Struct(&UEFI_SETTINGS), absent: Absent::Zero }],
};

static TRUSTED_LAUNCH: GoStruct = GoStruct {
    name: "v1beta1.TrustedLaunch",
    fields: &[Field { name: "uefiSettings", kind: Kind::Struct(&UEFI_SETTINGS), absent: Absent::Zero }],
};

static SECURITY_SETTINGS: GoStruct = GoStruct {
    name: "v1beta1.SecuritySettings",
    fields: &[
        Field { name: "securityType", kind: Kind::Text("v1beta1.SecurityTypes"), absent: Absent::Zero },
        Field { name: "confidentialVM", kind: Kind::Struct(&CONFIDENTIAL_VM), absent: Absent::OmittedPointer },
        Field { name: "trustedLaunch", kind: Kind::Struct(&TRUSTED_LAUNCH), absent: Absent::OmittedPointer },
    ],
};

static SECURITY_PROFILE: GoStruct = GoStruct {
    name: "v1beta1.SecurityProfile",
    fields: &[
        Field { name: "encryptionAtHost", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "settings", kind: Kind::Struct(&SECURITY_SETTINGS), absent: Absent::Zero },
    ],
};

static AZURE_CUSTOMER_MANAGED_BOOT_DIAGNOSTICS: GoStruct =
    GoStruct { name: "v1beta1.AzureCustomerManagedBootDiagnostics", fields: &[text("storageAccountURI", Absent::Zero)] };

static AZURE_BOOT_DIAGNOSTICS: GoStruct = GoStruct {
    name: "v1beta1.AzureBootDiagnostics",
    fields: &[
        Field { name: "storageAccountType", kind: Kind::Text("v1beta1.AzureBootDiagnosticsStorageAccountType"), absent: Absent::Zero },
        Field { name: "customerManaged", kind: Kind::Struct(&AZURE_CUSTOMER_MANAGED_BOOT_DIAGNOSTICS), absent: Absent::OmittedPointer },
    ],
};

static AZURE_DIAGNOSTICS: GoStruct = GoStruct {
    name: "v1beta1.AzureDiagnostics",
    fields: &[Field { name: "boot", kind: Kind::Struct(&AZURE_BOOT_DIAGNOSTICS), absent: Absent::OmittedPointer }],
};

/// Provider spec of Microsoft Azure.
pub(super) static AZURE: GoStruct = GoStruct {
    name: "v1beta1.AzureMachineProviderSpec",
    fields: &[
        text("apiVersion", Absent::Omitted),
        text("kind", Absent::Omitted),
        Field { name: "metadata", kind: Kind::Struct(&OBJECT_META), absent: Absent::Zero },
        Field { name: "userDataSecret", kind: Kind::Struct(&SECRET_REFERENCE), absent: Absent::OmittedPointer },
        Field { name: "credentialsSecret", kind: Kind::Struct(&SECRET_REFERENCE), absent: Absent::OmittedPointer },
        text("location", Absent::Omitted),
        text("vmSize", Absent::Omitted),
        Field { name: "image", kind: Kind::Struct(&IMAGE), absent: Absent::Zero },
        Field { name: "osDisk", kind: Kind::Struct(&OS_DISK), absent: Absent::Zero },
        Field { name: "dataDisks", kind: Kind::List(&DATA_DISK), absent: Absent::Omitted },
        text("sshPublicKey", Absent::Omitted),
        Field { name: "publicIP", kind: Kind::Bool, absent: Absent::Zero },
        Field { name: "tags", kind: Kind::TextMap, absent: Absent::Omitted },
        text("securityGroup", Absent::Omitted),
        Field { name: "applicationSecurityGroups", kind: Kind::Texts, absent: Absent::Omitted },
        text("subnet", Absent::Zero),
        text("publicLoadBalancer", Absent::Omitted),
        text("internalLoadBalancer", Absent::Omitted),
        Field { name: "natRule", kind: Kind::Int64, absent: Absent::OmittedPointer },
        text("managedIdentity", Absent::Omitted),
        text("vnet", Absent::Omitted),
        text("zone", Absent::Omitted),
        text("networkResourceGroup", Absent::Omitted),
        text("resourceGroup", Absent::Omitted),
        Field { name: "spotVMOptions", kind: Kind::Struct(&SPOT_VM_OPTIONS), absent: Absent::OmittedPointer },
        Field { name: "securityProfile", kind: Kind::Struct(&SECURITY_PROFILE), absent: Absent::OmittedPointer },
        Field { name: "ultraSSDCapability", kind: Kind::Text("v1beta1.AzureUltraSSDCapabilityState"), absent: Absent::Omitted },
        Field { name: "acceleratedNetworking", kind: Kind::Bool, absent: Absent::Omitted },
        text("availabilitySet", Absent::Omitted),
        Field { name: "diagnostics", kind: Kind::Struct(&AZURE_DIAGNOSTICS), absent: Absent::Zero },
        text("capacityReservationGroupID", Absent::Omitted),
    ],
};

static GCPKMS_KEY_REFERENCE: GoStruct = GoStruct {
    name: "v1beta1.GCPKMSKeyReference",
    fields: &[
        text("name", Absent::Zero),
        text("keyRing", Absent::Zero),
        text("projectID", Absent::Omitted),
        text("location", Absent::Zero),
    ],
};

static GCP_ENCRYPTION_KEY_REFERENCE: GoStruct = GoStruct {
    name: "v1beta1.GCPEncryptionKeyReference",
    fields: &[
        Field { name: "kmsKey", kind: Kind::Struct(&GCPKMS_KEY_REFERENCE), absent: Absent::OmittedPointer },
        text("kmsKeyServiceAccount", Absent::Omitted),
    ],
};

static GCP_DISK: GoStruct = GoStruct {
    name: "v1beta1.GCPDisk",
    fields: &[
        Field { name: "autoDelete", kind: Kind::Bool, absent: Absent::Zero },
        Field { name: "boot", kind: Kind::Bool, absent: Absent::Zero },
        Field { name: "sizeGb", kind: Kind::Int64, absent: Absent::Zero },
        text("type", Absent::Zero),
        text("image", Absent::Zero),
        Field { name: "labels", kind: Kind::TextMap, absent: Absent::Null },
        Field { name: "encryptionKey", kind: Kind::Struct(&GCP_ENCRYPTION_KEY_REFERENCE), absent: Absent::OmittedPointer },
    ],
};

static GCP_METADATA: GoStruct = GoStruct { name: "v1beta1.GCPMetadata", fields: &[text("key", Absent::Zero), text("value", Absent::Null)] };

static GCP_NETWORK_INTERFACE: GoStruct = GoStruct {
    name: "v1beta1.GCPNetworkInterface",
    fields: &[
        Field { name: "publicIP", kind: Kind::Bool, absent: Absent::Omitted },
        text("network", Absent::Omitted),
        text("projectID", Absent::Omitted),
        text("subnetwork", Absent::Omitted),
    ],
};

static GCP_SERVICE_ACCOUNT: GoStruct = GoStruct {
    name: "v1beta1.GCPServiceAccount",
    fields: &[text("email", Absent::Zero), Field { name: "scopes", kind: Kind::Texts, absent: Absent::Null }],
};

static GCPGPU_CONFIG: GoStruct = GoStruct {
    name: "v1beta1.GCPGPUConfig",
    fields: &[Field { name: "count", kind: Kind::Int32, absent: Absent::Zero }, text("type", Absent::Zero)],
};

static GCP_SHIELDED_INSTANCE_CONFIG: GoStruct = GoStruct {
    name: "v1beta1.GCPShieldedInstanceConfig",
    fields: &[
        Field { name: "secureBoot", kind: Kind::Text("v1beta1.SecureBootPolicy"), absent: Absent::Omitted },
        Field {
            name: "virtualizedTrustedPlatformModule",
            kind: Kind::Text("v1beta1.VirtualizedTrustedPlatformModulePolicy"),
            absent: Absent::Omitted,
        },
        Field { name: "integrityMonitoring", kind: Kind::Text("v1beta1.IntegrityMonitoringPolicy"), absent: Absent::Omitted },
    ],
};

static RESOURCE_MANAGER_TAG: GoStruct = GoStruct {
    name: "v1beta1.ResourceManagerTag",
    fields: &[text("parentID", Absent::Zero), text("key", Absent::Zero), text("value", Absent::Zero)],
};

/// Provider spec of Google Cloud.
pub(super) static GCP: GoStruct = GoStruct {
    name: "v1beta1.GCPMachineProviderSpec",
    fields: &[
        text("apiVersion", Absent::Omitted),
        text("kind", Absent::Omitted),
        Field { name: "metadata", kind: Kind::Struct(&OBJECT_META), absent: Absent::Zero },
        Field { name: "userDataSecret", kind: Kind::Struct(&LOCAL_OBJECT_REFERENCE), absent: Absent::OmittedPointer },
        Field { name: "credentialsSecret", kind: Kind::Struct(&LOCAL_OBJECT_REFERENCE), absent: Absent::OmittedPointer },
        Field { name: "canIPForward", kind: Kind::Bool, absent: Absent::Zero },
        Field { name: "deletionProtection", kind: Kind::Bool, absent: Absent::Zero },
        Field { name: "disks", kind: Kind::Pointers(&GCP_DISK), absent: Absent::Omitted },
        Field { name: "labels", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "gcpMetadata", kind: Kind::Pointers(&GCP_METADATA), absent: Absent::Omitted },
        Field { name: "networkInterfaces", kind: Kind::Pointers(&GCP_NETWORK_INTERFACE), absent: Absent::Omitted },
        Field { name: "serviceAccounts", kind: Kind::List(&GCP_SERVICE_ACCOUNT), absent: Absent::Null },
        Field { name: "tags", kind: Kind::Texts, absent: Absent::Omitted },
        Field { name: "targetPools", kind: Kind::Texts, absent: Absent::Omitted },
        text("machineType", Absent::Zero),
        text("region", Absent::Zero),
        text("zone", Absent::Zero),
        text("projectID", Absent::Omitted),
        Field { name: "gpus", kind: Kind::List(&GCPGPU_CONFIG), absent: Absent::Omitted },
        Field { name: "preemptible", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "provisioningModel", kind: Kind::Text("v1beta1.GCPProvisioningModelType"), absent: Absent::OmittedPointer },
        Field { name: "onHostMaintenance", kind: Kind::Text("v1beta1.GCPHostMaintenanceType"), absent: Absent::Omitted },
        Field { name: "restartPolicy", kind: Kind::Text("v1beta1.GCPRestartPolicyType"), absent: Absent::Omitted },
        Field { name: "shieldedInstanceConfig", kind: Kind::Struct(&GCP_SHIELDED_INSTANCE_CONFIG), absent: Absent::Zero },
        Field { name: "confidentialCompute", kind: Kind::Text("v1beta1.ConfidentialComputePolicy"), absent: Absent::Omitted },
        Field { name: "resourceManagerTags", kind: Kind::List(&RESOURCE_MANAGER_TAG), absent: Absent::Omitted },
    ],
};
