//! The catalog operator: CatalogSources, Subscriptions and InstallPlans.
