//! Table of the kubelet's configuration: its fields, in the types that Kubernetes' API gives them (1.32).

use mainstay_golang::typed::{Absent, Field, GoStruct, Kind};

use super::forms;

const DURATION: Kind = Kind::Parsed("v1.Duration", forms::duration, "\"0s\"");
const FLUSH_FREQUENCY: Kind = Kind::Parsed(forms::FLUSH_FREQUENCY, forms::flush_frequency, "0");
const BUFFER_SIZE: Kind = Kind::Parsed(forms::BUFFER_SIZE, forms::quantity, "\"0\"");
const VERBOSITY: Kind = Kind::Parsed("v1.VerbosityLevel", forms::verbosity, "0");
const LIMITS: Kind = Kind::Parsed("v1.ResourceList", forms::quantities, "null");

const fn text(name: &'static str, absent: Absent) -> Field {
    Field { name, kind: Kind::Text("string"), absent }
}

static KUBELET_X509_AUTHENTICATION: GoStruct =
    GoStruct { name: "v1beta1.KubeletX509Authentication", fields: &[text("clientCAFile", Absent::Omitted)] };

static KUBELET_WEBHOOK_AUTHENTICATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletWebhookAuthentication",
    fields: &[
        Field { name: "enabled", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "cacheTTL", kind: DURATION, absent: Absent::Zero },
    ],
};

static KUBELET_ANONYMOUS_AUTHENTICATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletAnonymousAuthentication",
    fields: &[Field { name: "enabled", kind: Kind::Bool, absent: Absent::OmittedPointer }],
};

static KUBELET_AUTHENTICATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletAuthentication",
    fields: &[
        Field { name: "x509", kind: Kind::Struct(&KUBELET_X509_AUTHENTICATION), absent: Absent::Zero },
        Field { name: "webhook", kind: Kind::Struct(&KUBELET_WEBHOOK_AUTHENTICATION), absent: Absent::Zero },
        Field { name: "anonymous", kind: Kind::Struct(&KUBELET_ANONYMOUS_AUTHENTICATION), absent: Absent::Zero },
    ],
};

static KUBELET_WEBHOOK_AUTHORIZATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletWebhookAuthorization",
    fields: &[
        Field { name: "cacheAuthorizedTTL", kind: DURATION, absent: Absent::Zero },
        Field { name: "cacheUnauthorizedTTL", kind: DURATION, absent: Absent::Zero },
    ],
};

static KUBELET_AUTHORIZATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletAuthorization",
    fields: &[
        Field { name: "mode", kind: Kind::Text("v1beta1.KubeletAuthorizationMode"), absent: Absent::Omitted },
        Field { name: "webhook", kind: Kind::Struct(&KUBELET_WEBHOOK_AUTHORIZATION), absent: Absent::Zero },
    ],
};

static MEMORY_SWAP_CONFIGURATION: GoStruct =
    GoStruct { name: "v1beta1.MemorySwapConfiguration", fields: &[text("swapBehavior", Absent::Omitted)] };

static V_MODULE_ITEM: GoStruct = GoStruct {
    name: "v1.VModuleItem",
    fields: &[text("filePattern", Absent::Zero), Field { name: "verbosity", kind: VERBOSITY, absent: Absent::Zero }],
};

static TEXT_OPTIONS: GoStruct = GoStruct {
    name: "v1.TextOptions",
    fields: &[
        Field { name: "splitStream", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "infoBufferSize", kind: BUFFER_SIZE, absent: Absent::Zero },
    ],
};

static JSON_OPTIONS: GoStruct = GoStruct {
    name: "v1.JSONOptions",
    fields: &[
        Field { name: "splitStream", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "infoBufferSize", kind: BUFFER_SIZE, absent: Absent::Zero },
    ],
};

static FORMAT_OPTIONS: GoStruct = GoStruct {
    name: "v1.FormatOptions",
    fields: &[
        Field { name: "text", kind: Kind::Struct(&TEXT_OPTIONS), absent: Absent::Zero },
        Field { name: "json", kind: Kind::Struct(&JSON_OPTIONS), absent: Absent::Zero },
    ],
};

static LOGGING_CONFIGURATION: GoStruct = GoStruct {
    name: "v1.LoggingConfiguration",
    fields: &[
        text("format", Absent::Omitted),
        Field { name: "flushFrequency", kind: FLUSH_FREQUENCY, absent: Absent::Zero },
        Field { name: "verbosity", kind: VERBOSITY, absent: Absent::Zero },
        Field { name: "vmodule", kind: Kind::List(&V_MODULE_ITEM), absent: Absent::Omitted },
        Field { name: "options", kind: Kind::Struct(&FORMAT_OPTIONS), absent: Absent::Zero },
    ],
};

static SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY: GoStruct = GoStruct {
    name: "v1beta1.ShutdownGracePeriodByPodPriority",
    fields: &[
        Field { name: "priority", kind: Kind::Int32, absent: Absent::Zero },
        Field { name: "shutdownGracePeriodSeconds", kind: Kind::Int64, absent: Absent::Zero },
    ],
};

static CRASH_LOOP_BACK_OFF_CONFIG: GoStruct = GoStruct {
    name: "v1beta1.CrashLoopBackOffConfig",
    fields: &[Field { name: "maxContainerRestartPeriod", kind: DURATION, absent: Absent::OmittedPointer }],
};

static MEMORY_RESERVATION: GoStruct = GoStruct {
    name: "v1beta1.MemoryReservation",
    fields: &[
        Field { name: "numaNode", kind: Kind::Int32, absent: Absent::Zero },
        Field { name: "limits", kind: LIMITS, absent: Absent::Null },
    ],
};

static TAINT: GoStruct = GoStruct {
    name: "v1.Taint",
    fields: &[
        text("key", Absent::Zero),
        text("value", Absent::Omitted),
        Field { name: "effect", kind: Kind::Text("v1.TaintEffect"), absent: Absent::Zero },
        Field { name: "timeAdded", kind: Kind::Any, absent: Absent::OmittedPointer },
    ],
};

static TRACING_CONFIGURATION: GoStruct = GoStruct {
    name: "v1.TracingConfiguration",
    fields: &[
        text("endpoint", Absent::OmittedPointer),
        Field { name: "samplingRatePerMillion", kind: Kind::Int32, absent: Absent::OmittedPointer },
    ],
};

/// The kubelet's configuration.
pub(super) static KUBELET_CONFIGURATION: GoStruct = GoStruct {
    name: "v1beta1.KubeletConfiguration",
    fields: &[
        text("kind", Absent::Omitted),
        text("apiVersion", Absent::Omitted),
        Field { name: "enableServer", kind: Kind::Bool, absent: Absent::OmittedPointer },
        text("staticPodPath", Absent::Omitted),
        text("podLogsDir", Absent::Omitted),
        Field { name: "syncFrequency", kind: DURATION, absent: Absent::Zero },
        Field { name: "fileCheckFrequency", kind: DURATION, absent: Absent::Zero },
        Field { name: "httpCheckFrequency", kind: DURATION, absent: Absent::Zero },
        text("staticPodURL", Absent::Omitted),
        Field { name: "staticPodURLHeader", kind: Kind::TextsMap, absent: Absent::Omitted },
        text("address", Absent::Omitted),
        Field { name: "port", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "readOnlyPort", kind: Kind::Int32, absent: Absent::Omitted },
        text("tlsCertFile", Absent::Omitted),
        text("tlsPrivateKeyFile", Absent::Omitted),
        Field { name: "tlsCipherSuites", kind: Kind::Texts, absent: Absent::Omitted },
        text("tlsMinVersion", Absent::Omitted),
        Field { name: "rotateCertificates", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "serverTLSBootstrap", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "authentication", kind: Kind::Struct(&KUBELET_AUTHENTICATION), absent: Absent::Zero },
        Field { name: "authorization", kind: Kind::Struct(&KUBELET_AUTHORIZATION), absent: Absent::Zero },
        Field { name: "registryPullQPS", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "registryBurst", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "eventRecordQPS", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "eventBurst", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "enableDebuggingHandlers", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "enableContentionProfiling", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "healthzPort", kind: Kind::Int32, absent: Absent::OmittedPointer },
        text("healthzBindAddress", Absent::Omitted),
        Field { name: "oomScoreAdj", kind: Kind::Int32, absent: Absent::OmittedPointer },
        text("clusterDomain", Absent::Omitted),
        Field { name: "clusterDNS", kind: Kind::Texts, absent: Absent::Omitted },
        Field { name: "streamingConnectionIdleTimeout", kind: DURATION, absent: Absent::Zero },
        Field { name: "nodeStatusUpdateFrequency", kind: DURATION, absent: Absent::Zero },
        Field { name: "nodeStatusReportFrequency", kind: DURATION, absent: Absent::Zero },
        Field { name: "nodeLeaseDurationSeconds", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "imageMinimumGCAge", kind: DURATION, absent: Absent::Zero },
        Field { name: "imageMaximumGCAge", kind: DURATION, absent: Absent::Zero },
        Field { name: "imageGCHighThresholdPercent", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "imageGCLowThresholdPercent", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "volumeStatsAggPeriod", kind: DURATION, absent: Absent::Zero },
        text("kubeletCgroups", Absent::Omitted),
        text("systemCgroups", Absent::Omitted),
        text("cgroupRoot", Absent::Omitted),
        Field { name: "cgroupsPerQOS", kind: Kind::Bool, absent: Absent::OmittedPointer },
        text("cgroupDriver", Absent::Omitted),
        text("cpuManagerPolicy", Absent::Omitted),
        Field { name: "singleProcessOOMKill", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "cpuManagerPolicyOptions", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "cpuManagerReconcilePeriod", kind: DURATION, absent: Absent::Zero },
        text("memoryManagerPolicy", Absent::Omitted),
        text("topologyManagerPolicy", Absent::Omitted),
        text("topologyManagerScope", Absent::Omitted),
        Field { name: "topologyManagerPolicyOptions", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "qosReserved", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "runtimeRequestTimeout", kind: DURATION, absent: Absent::Zero },
        text("hairpinMode", Absent::Omitted),
        Field { name: "maxPods", kind: Kind::Int32, absent: Absent::Omitted },
        text("podCIDR", Absent::Omitted),
        Field { name: "podPidsLimit", kind: Kind::Int64, absent: Absent::OmittedPointer },
        text("resolvConf", Absent::OmittedPointer),
        Field { name: "runOnce", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "cpuCFSQuota", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "cpuCFSQuotaPeriod", kind: DURATION, absent: Absent::OmittedPointer },
        Field { name: "nodeStatusMaxImages", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "maxOpenFiles", kind: Kind::Int64, absent: Absent::Omitted },
        text("contentType", Absent::Omitted),
        Field { name: "kubeAPIQPS", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "kubeAPIBurst", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "serializeImagePulls", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "maxParallelImagePulls", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "evictionHard", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "evictionSoft", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "evictionSoftGracePeriod", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "evictionPressureTransitionPeriod", kind: DURATION, absent: Absent::Zero },
        Field { name: "evictionMaxPodGracePeriod", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "evictionMinimumReclaim", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "podsPerCore", kind: Kind::Int32, absent: Absent::Omitted },
        Field { name: "enableControllerAttachDetach", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "protectKernelDefaults", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "makeIPTablesUtilChains", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "iptablesMasqueradeBit", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "iptablesDropBit", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "featureGates", kind: Kind::BoolMap, absent: Absent::Omitted },
        Field { name: "failSwapOn", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "memorySwap", kind: Kind::Struct(&MEMORY_SWAP_CONFIGURATION), absent: Absent::Zero },
        text("containerLogMaxSize", Absent::Omitted),
        Field { name: "containerLogMaxFiles", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "containerLogMaxWorkers", kind: Kind::Int32, absent: Absent::OmittedPointer },
        Field { name: "containerLogMonitorInterval", kind: DURATION, absent: Absent::OmittedPointer },
        Field {
            name: "configMapAndSecretChangeDetectionStrategy",
            kind: Kind::Text("v1beta1.ResourceChangeDetectionStrategy"),
            absent: Absent::Omitted,
        },
        Field { name: "systemReserved", kind: Kind::TextMap, absent: Absent::Omitted },
        Field { name: "kubeReserved", kind: Kind::TextMap, absent: Absent::Omitted },
        text("reservedSystemCPUs", Absent::Omitted),
        text("showHiddenMetricsForVersion", Absent::Omitted),
        text("systemReservedCgroup", Absent::Omitted),
        text("kubeReservedCgroup", Absent::Omitted),
        Field { name: "enforceNodeAllocatable", kind: Kind::Texts, absent: Absent::Omitted },
        Field { name: "allowedUnsafeSysctls", kind: Kind::Texts, absent: Absent::Omitted },
        text("volumePluginDir", Absent::Omitted),
        text("providerID", Absent::Omitted),
        Field { name: "kernelMemcgNotification", kind: Kind::Bool, absent: Absent::Omitted },
        Field { name: "logging", kind: Kind::Struct(&LOGGING_CONFIGURATION), absent: Absent::Zero },
        Field { name: "enableSystemLogHandler", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "enableSystemLogQuery", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "shutdownGracePeriod", kind: DURATION, absent: Absent::Zero },
        Field { name: "shutdownGracePeriodCriticalPods", kind: DURATION, absent: Absent::Zero },
        Field {
            name: "shutdownGracePeriodByPodPriority",
            kind: Kind::List(&SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY),
            absent: Absent::Omitted,
        },
        Field { name: "crashLoopBackOff", kind: Kind::Struct(&CRASH_LOOP_BACK_OFF_CONFIG), absent: Absent::Zero },
        Field { name: "reservedMemory", kind: Kind::List(&MEMORY_RESERVATION), absent: Absent::Omitted },
        Field { name: "enableProfilingHandler", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "enableDebugFlagsHandler", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "seccompDefault", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "memoryThrottlingFactor", kind: Kind::Float64, absent: Absent::OmittedPointer },
        Field { name: "registerWithTaints", kind: Kind::List(&TAINT), absent: Absent::Omitted },
        Field { name: "registerNode", kind: Kind::Bool, absent: Absent::OmittedPointer },
        Field { name: "tracing", kind: Kind::Struct(&TRACING_CONFIGURATION), absent: Absent::OmittedPointer },
        Field { name: "localStorageCapacityIsolation", kind: Kind::Bool, absent: Absent::OmittedPointer },
        text("containerRuntimeEndpoint", Absent::Zero),
        text("imageServiceEndpoint", Absent::Omitted),
        Field { name: "failCgroupV1", kind: Kind::Bool, absent: Absent::OmittedPointer },
    ],
};
