//! Which build of the program this is. The commit and the date are known where whoever builds sets `MAINSTAY_COMMIT` and
//! `MAINSTAY_BUILD_DATE`: a build from an archive, without git, is a build as well.

/// The version, as tags write it.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The commit; empty where it is not known.
pub const COMMIT: &str = match option_env!("MAINSTAY_COMMIT") {
    Some(commit) => commit,
    None => "",
};
/// When it was built; empty where it is not known.
pub const DATE: &str = match option_env!("MAINSTAY_BUILD_DATE") {
    Some(date) => date,
    None => "",
};

/// The machine as Go calls it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
