//! The ways in which catalogs by image are served and bundles are unpacked (OLM0-CAT-34).

use mainstay_olm_classic_core::catalog_source::registry::Tools;

/// The way in which catalogs are served and bundles unpacked.
#[derive(Debug, Clone, Default)]
pub enum CatalogServing {
    /// This process pulls and reads them.
    #[default]
    InProcess,
    /// Pods serve catalogs, and Jobs unpack bundles.
    Pods {
        /// The images of tools, and the user of the pods.
        tools: Tools,
        /// Source of the content of a catalog once its pod is ready.
        content: PodContent,
    },
}

/// The source of a catalog's content once its pod is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodContent {
    /// The server in the pod, by gRPC.
    Server,
    /// The image that the pod has, read by this process: the pod is simulated (OLM0-CAT-36).
    Image,
}
