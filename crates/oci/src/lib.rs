//! Registries, layouts, unpacking with limits, image building, content cache.
