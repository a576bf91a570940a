//! The build of this program. The commit and the date are known if the build sets `MAINSTAY_COMMIT` and `MAINSTAY_BUILD_DATE`. A build from
//! an archive, without git, needs neither.

/// The version, as tags write it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit; empty if it is not known.
pub const COMMIT: &str = match option_env!("MAINSTAY_COMMIT") {
    Some(commit) => commit,
    None => "",
};
/// The date of the build; empty if it is not known.
pub const DATE: &str = match option_env!("MAINSTAY_BUILD_DATE") {
    Some(date) => date,
    None => "",
};

/// Returns the machine's architecture, as Go names it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
