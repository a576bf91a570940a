//! Volumes that are put together from several sources.

use mainstay_schema::field::{Error, Path};
use serde_json::Value;

use super::volumes::{downward_file, file_path, files, mode};
use super::{Errors, int, list, text};

pub(super) fn projected(given: &Value, path: &Path) -> Errors {
    let mut errors = mode(given, "defaultMode", path);
    let mut taken = Taken { paths: Vec::new(), path };
    for (index, source) in list(given, "sources").iter().enumerate() {
        let path = path.child("sources").index(index);
        let mut kinds = 0;
        // Trust bundles and certificates of pods stand behind gates that are off.
        for field in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            let Some(given) = source.get(field).filter(|given| !given.is_null()) else { continue };
            kinds += 1;
            errors.extend(one(field, given, &path.child(field), &mut taken));
        }
        if kinds > 1 {
            errors.push(Error::forbidden(&path, "may not specify more than 1 volume type per source"));
        }
    }
    errors
}

/// The paths that files of the volume have already.
struct Taken<'a> {
    paths: Vec<&'a str>,
    path: &'a Path,
}

impl<'a> Taken<'a> {
    /// Takes a path. Findings show what the file comes from.
    fn take(&mut self, file: &'a str, from: &str) -> Errors {
        if self.paths.contains(&file) {
            return vec![Error::invalid(self.path, from, "conflicting duplicate paths")];
        }
        self.paths.push(file);
        Vec::new()
    }
}

fn one<'a>(field: &str, given: &'a Value, path: &Path, taken: &mut Taken<'a>) -> Errors {
    let mut errors = Vec::new();
    match field {
        "secret" | "configMap" => {
            let name = text(given, "name");
            if name.is_empty() {
                errors.push(Error::required(&path.child("name"), ""));
            }
            errors.extend(files(given, path));
            for file in list(given, "items").iter().map(|item| text(item, "path")).filter(|file| !file.is_empty()) {
                errors.extend(taken.take(file, name));
            }
        }
        "downwardAPI" => {
            // Findings do not say which file they mean.
            for item in list(given, "items") {
                errors.extend(downward_file(item, path));
                let file = text(item, "path");
                if !file.is_empty() {
                    errors.extend(taken.take(file, file));
                }
            }
        }
        "serviceAccountToken" => {
            let seconds = int(given, "expirationSeconds").unwrap_or(0);
            let own = path.child("expirationSeconds");
            if seconds < 600 {
                errors.push(Error::invalid(&own, seconds, "may not specify a duration less than 10 minutes"));
            }
            if seconds > 1 << 32 {
                errors.push(Error::invalid(&own, seconds, "may not specify a duration larger than 2^32 seconds"));
            }
            // The path of the file is told as one of the whole volume.
            errors.extend(file_path(given, taken.path));
        }
        _ => {}
    }
    errors
}
