//! The rules that validators check, by name: upstream's type of the finding, and a fix.

use super::finding::Rule;

macro_rules! rules {
    ($($name:ident = $id:literal, $kind:literal, $fix:literal;)*) => {
        $(pub(crate) const $name: Rule = Rule { id: $id, kind: $kind, fix: $fix };)*

        /// Every rule, in the order of its validators.
        pub const ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    NO_CSV = "load/no-csv", "", "put the ClusterServiceVersion into manifests/";
    SEVERAL_CSVS = "load/several-csvs", "", "keep one ClusterServiceVersion; a bundle is one version of one operator";
    CSV_TYPES = "load/csv-types", "", "give the field the type that its kind asks for";
    CRD_TYPES = "load/crd-types", "", "give the field the type that its kind asks for";
    CRD_VERSION = "load/crd-version", "", "use apiextensions.k8s.io/v1";
    FOLDER = "load/folder", "", "move the files into manifests/ itself";
    HIDDEN_FILE = "load/hidden-file", "", "remove the file or give it a name without the leading dot";
    DECODE = "load/object", "", "make the file one Kubernetes object with apiVersion and kind, or move it out of manifests/";
    ANNOTATIONS_FILE = "load/annotations", "", "make annotations a mapping of texts; put booleans and numbers in quotes";

    FORMAT_FOLDER = "format/folder", "", "a bundle has the folders manifests/ and metadata/";
    FORMAT_MEDIA_TYPE = "format/media-type", "", "put the manifests into manifests/";
    FORMAT_NO_ANNOTATIONS = "format/annotations-file", "", "write metadata/annotations.yaml; opm alpha bundle generate makes it";
    FORMAT_ANNOTATION = "format/annotation", "", "correct the entry in metadata/annotations.yaml";
    FORMAT_DEPENDENCY = "format/dependency", "", "correct the entry in metadata/dependencies.yaml";
    CONTENT_KIND = "content/kind", "", "remove the object; an operator creates such objects itself";
    CONTENT_OBJECT = "content/object", "", "make the file one Kubernetes object with apiVersion and kind";
    CONTENT_META = "content/metadata", "", "correct the object's metadata";
    CONTENT_OWNED_CRD = "content/owned-crd", "BundleNotValid", "ship the CRD in manifests/, with the name, version and kind that the CSV gives it";
    CONTENT_CRD_VERSION = "content/crd-version", "", "use apiextensions.k8s.io/v1";
    CONTENT_CSV = "content/csv", "ParseError", "correct the field in the CSV";
    CONTENT_RELEASE = "content/release", "BundleNotValid", "keep spec.release or the annotation olm.substitutesFor, not both";

    CSV_NAME = "csv/name", "CSVFileNotValid", "use a lower-case DNS name of at most 63 characters, such as NAME.vVERSION";
    CSV_EXAMPLES = "csv/examples", "CSVFileNotValid", "add the annotation alm-examples: a JSON list with one custom resource for each owned API";
    CSV_EXAMPLE_SYNTAX = "csv/example-syntax", "ParseError", "make alm-examples a JSON list of objects";
    CSV_EXAMPLE_API = "csv/example-api", "OperationFailed", "make the examples of alm-examples and the owned APIs agree in group, version and kind";
    CSV_OWNED_NAME = "csv/owned-name", "ParseError", "name the CRD PLURAL.GROUP";
    CSV_INSTALL_MODES = "csv/install-modes", "CSVFileNotValid", "list each install mode once and support at least one";
    CSV_MIN_KUBE_VERSION = "csv/min-kube-version", "CSVFileNotValid", "set spec.minKubeVersion to MAJOR.MINOR.PATCH";
    CSV_FIELD = "csv/required-field", "FieldNotFound", "fill in the field";
    CSV_ANNOTATION_CASE = "csv/annotation-case", "ValidationFailed", "write the annotation's name as shown";
    CSV_PROPERTIES = "csv/properties-annotation", "PropertiesAnnotationUsed", "move the properties to metadata/properties.yaml";
    CSV_KIND = "csv/version-kind", "CSVFileNotValid", "set apiVersion: operators.coreos.com/v1alpha1 and kind: ClusterServiceVersion";

    CRD = "crd/valid", "", "correct the CRD; the API server would refuse it";

    BUNDLE_CRD_TWICE = "bundle/crd-twice", "BundleNotValid", "ship one CRD for each group, version and kind";
    BUNDLE_OWNED_CRD = "bundle/owned-crd", "BundleNotValid", "ship the CRD in manifests/, or remove it from spec.customresourcedefinitions.owned";
    BUNDLE_STRAY_CRD = "bundle/stray-crd", "BundleNotValid", "add the CRD to spec.customresourcedefinitions.owned, or remove it from manifests/";
    BUNDLE_SERVICE_ACCOUNT = "bundle/service-account", "BundleNotValid", "remove the ServiceAccount from manifests/; the CSV's permissions create it";
    BUNDLE_SIZE = "bundle/size", "BundleNotValid", "shorten descriptions, examples and schemas, or split CRDs off";
    BUNDLE_SIZE_UNKNOWN = "bundle/size-unknown", "ValidationFailed", "check that the files are not empty";
    BUNDLE_NAME = "bundle/name", "BundleNotValid", "name the CSV PACKAGE-vVERSION-RELEASE";
    BUNDLE_IMAGES = "bundle/related-images", "BundleNotValid", "write REGISTRY/REPOSITORY@sha256:DIGEST without a scheme";

    OBJECT_BUDGET = "object/disruption-budget", "ObjectFailedValidation", "leave room for one pod to be evicted, or cluster upgrades hang";
    OBJECT_PRIORITY = "object/priority-class", "ObjectFailedValidation", "remove globalDefault; it would change the priority of everybody's pods";
    OBJECT_BUDGET_RIGHT = "object/disruption-budget-right", "ValidationFailed", "drop the verbs on poddisruptionbudgets where they are not needed";
    OBJECT_CONSTRAINTS = "object/default-constraints", "ObjectFailedValidation", "do not change the platform's own SecurityContextConstraints";
    OBJECT_TYPES = "object/types", "ParseError", "give the field the type that its kind asks for";

    HUB_PROVIDER = "hub/provider", "CSVFileNotValid", "set spec.provider.name";
    HUB_MAINTAINERS = "hub/maintainers", "CSVFileNotValid", "give each maintainer a name and an e-mail address";
    HUB_LINKS = "hub/links", "CSVFileNotValid", "give each link a name and an absolute URL";
    HUB_VERSION = "hub/version", "CSVFileNotValid", "set spec.version";
    HUB_ICON = "hub/icon", "CSVFileNotValid", "give one icon with base64data and a mediatype of image/gif, image/jpeg, image/png or image/svg+xml";
    HUB_DEPRECATED = "hub/deprecated-validator", "DeprecatedValidator", "select operatorhubv2, capabilities and categories instead";
    CAPABILITIES = "capabilities/level", "CSVFileNotValid", "use Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot";
    CATEGORIES = "categories/known", "CSVFileNotValid", "use one of the known categories, separated by commas";

    REMOVED_API = "removed-apis/used", "ValidationFailed", "use the API version that replaced it, see the deprecation guide";
    REMOVED_API_VERSION = "removed-apis/version", "ValidationFailed", "give a version such as 1.25";

    PRACTICE_DEPLOYMENT = "practices/deployment", "ValidationFailed", "list the operator's deployments in spec.install.spec.deployments";
    PRACTICE_REQUESTS = "practices/resource-requests", "ValidationFailed", "set resources.requests.cpu and resources.requests.memory";
    PRACTICE_DESCRIPTION = "practices/crd-description", "ValidationFailed", "describe the CRD in one sentence for the console";
    PRACTICE_CHANNELS = "practices/channel-names", "ValidationFailed", "name channels candidate, fast or stable, with a suffix such as -v1";
    PRACTICE_CRD_RIGHT = "practices/crd-rights", "ValidationFailed", "declare needed APIs as dependencies instead of creating CRDs";
    PRACTICE_NAME = "practices/name", "ValidationFailed", "name the CSV NAME.vMAJOR.MINOR.PATCH";

    COMMUNITY = "community/openshift-versions", "CSVFileNotValid", "use APIs that are still served, or name the last OpenShift version";

    MULTIARCH_TOOL = "multiarch/tool", "ValidationFailed", "use docker, podman or none";
    MULTIARCH_INSPECT = "multiarch/inspect", "ValidationFailed", "check the reference and the credentials of its registry";
    MULTIARCH_SUPPORT = "multiarch/support", "ValidationFailed", "publish the image for the platform, or remove the label";
    MULTIARCH_LABELS = "multiarch/labels", "ValidationFailed", "label the CSV with every platform that the operator's images support";
    MULTIARCH_IMAGES = "multiarch/images", "ValidationFailed", "publish the image for every platform that the operator supports";
    MULTIARCH_AFFINITY = "multiarch/node-affinity", "ValidationFailed", "require kubernetes.io/arch and kubernetes.io/os of the image's platforms in the pod's node affinity";

    DEPENDENCY_API = "dependencies/undeclared-api", "ValidationFailed", "name the API in metadata/dependencies.yaml as olm.gvk, or the package that provides it as olm.package";
    DEPENDENCY_RANGE = "dependencies/range-narrow", "ValidationFailed", "leave the upper end out, or end the range before the next major version (>1.0.0 <2.0.0); exclude a single bad version with !1.5.0";
    DEPENDENCY_PACKAGES = "dependencies/all-packages", "ValidationFailed", "write one olm.package for each package; separate dependencies must all be satisfied";
}
