//! Scopes: registries, namespaces and repositories in them, and wildcards of registries (`*.example.com`).

/// Returns whether a scope lies inside another, or is the same.
pub fn is_inside(inner: &str, outer: &str) -> bool {
    if inner == outer || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/')) {
        return true;
    }
    let Some(domain) = outer.strip_prefix('*').filter(|domain| domain.starts_with('.')) else { return false };
    // Wildcards are about hosts alone.
    match inner.split_once(':') {
        Some((host, _)) => host.ends_with(domain) && !host.contains('/'),
        None => inner.split('/').next().is_some_and(|host| host.ends_with(domain)),
    }
}

/// Returns whether a scope is a wildcard.
pub fn is_wildcard(scope: &str) -> bool {
    scope.starts_with("*.")
}

/// Returns whether a text may stand where registries.conf has a prefix.
pub fn is_valid(scope: &str) -> bool {
    match scope.strip_prefix("*.") {
        _ if scope.is_empty() => false,
        _ if !scope.contains('*') => true,
        Some(domain) => !domain.contains(['/', '@', ':', '*']),
        None => false,
    }
}
