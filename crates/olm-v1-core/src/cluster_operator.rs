//! OpenShift's cluster operator for OLM: platform compatibility of installed bundles (OLM1-COMPAT-01 to -06), the default catalogs
//! (OLM1-CAT-10 to -12), and the settings of both controllers' Deployments (OLM1-GEN-06, OLM1-GEN-08).

pub mod catalogs;
pub mod compat;
pub mod deployments;
pub mod gates;
