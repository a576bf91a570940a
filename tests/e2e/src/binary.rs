//! Where the programs are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
}

/// The built `mainstay`: `$MAINSTAY_BIN`, else built once by Cargo into the folder of this test binary.
pub fn mainstay() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("MAINSTAY_BIN").map(PathBuf::from) {
            assert!(given.is_file(), "MAINSTAY_BIN={} is not a file", given.display());
            return given;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).args(["build", "--quiet", "--workspace", "--bin", "mainstay"]).current_dir(root()).status();
        assert!(status.is_ok_and(|status| status.success()), "cargo build of mainstay failed");
        let here = std::env::current_exe().unwrap_or_default();
        // <target>/<profile>/deps/<test>-<hash>
        let built = here.ancestors().nth(2).map(|folder| folder.join("mainstay")).unwrap_or_default();
        assert!(built.is_file(), "{} was not built", built.display());
        built
    })
}

/// A kubectl of 1.32 or newer: of `make setup`, else of the path.
pub fn kubectl() -> Option<PathBuf> {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    BINARY
        .get_or_init(|| {
            let candidates = [root().join(".cache/bin/kubectl"), PathBuf::from("kubectl")];
            candidates.into_iter().find(|candidate| new_enough(candidate))
        })
        .clone()
}

/// A program of `make setup`, else of the path.
pub fn program(name: &str) -> Option<PathBuf> {
    let cached = root().join(".cache/bin").join(name);
    if cached.exists() {
        return Some(cached);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn new_enough(kubectl: &Path) -> bool {
    let Ok(output) = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output() else { return false };
    let Ok(version) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else { return false };
    let number = |key: &str| {
        let text = version["clientVersion"][key].as_str().unwrap_or_default();
        text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().unwrap_or(0)
    };
    (number("major"), number("minor")) >= (1, 32)
}
