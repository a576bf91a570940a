//! The subject of a request to the config server, as upstream's router sees it.

/// The subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'p> {
    /// The config of a pool.
    Config(&'p str),
    /// The health of the server.
    Health,
    /// Nothing that is known.
    Unknown,
    /// A request that is neither to get something nor to ask for its size.
    OtherMethod,
}

/// Returns the subject of a request. The last part of a path below `/config/` is the pool.
pub fn route<'p>(method: &str, path: &'p str) -> Route<'p> {
    if method != "GET" && method != "HEAD" {
        return Route::OtherMethod;
    }
    match path.strip_prefix("/config/") {
        Some(_) => Route::Config(path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()),
        None if path == "/healthz" => Route::Health,
        None => Route::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// MACH-MCS-01: paths and methods.
    #[test]
    fn requests_by_path_and_method() {
        assert_eq!(route("GET", "/config/worker"), Route::Config("worker"));
        assert_eq!(route("HEAD", "/config/a/worker/"), Route::Config("worker"));
        assert_eq!(route("GET", "/config/"), Route::Config("config"));
        assert_eq!(route("GET", "/healthz"), Route::Health);
        for path in ["/", "", "/config", "/healthz/", "/configs/worker"] {
            assert_eq!(route("GET", path), Route::Unknown, "{path}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            assert_eq!(route(method, "/config/worker"), Route::OtherMethod, "{method}");
        }
    }
}
