//! PackageManifests of the catalogs, as an aggregated API (OLM0-API-27 to OLM0-API-31).
