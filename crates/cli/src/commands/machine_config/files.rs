//! Objects in files and folders, with the place of each.

use std::path::{Path, PathBuf};

use mainstay_machine_config_core::machine_config::MachineConfig;
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::Value;

/// The largest file that is read.
const MAX_FILE: u64 = 64 << 20;
/// The most files of a folder.
const MAX_FILES: usize = 10_000;

/// An object and where it stands.
pub(super) struct Placed {
    pub(super) object: Value,
    pub(super) path: PathBuf,
    pub(super) line: usize,
}

impl Placed {
    /// File and line, for messages.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }

    pub(super) fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The object as a MachineConfig.
    pub(super) fn machine_config(&self) -> Result<MachineConfig, Failure> {
        MachineConfig::from_object(&self.object).map_err(|error| Failure::failed(self.place(), &error))
    }
}

/// All objects of files, and of the files `*.yaml`, `*.yml` and `*.json` directly in folders, by name. Lists are taken apart.
pub(super) fn objects(paths: &[PathBuf]) -> Result<Vec<Placed>, Failure> {
    let mut objects = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in files_of(path)? {
                read(&file, &mut objects)?;
            }
        } else {
            read(path, &mut objects)?;
        }
    }
    Ok(objects)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let subject = format!("folder {}", folder.display());
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let fits = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if fits && path.is_file() {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(Failure::new(Exit::Failed, subject, format!("has more than {MAX_FILES} files")));
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, objects: &mut Vec<Placed>) -> Result<(), Failure> {
    let subject = format!("file {}", path.display());
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE {
        return Err(Failure::new(Exit::Failed, subject, format!("has {size} bytes; at most {MAX_FILE} are read")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    for document in mainstay_yaml::stream(&text) {
        let document = document.map_err(|error| Failure::failed(&subject, &error))?;
        let line = document.line;
        let placed = |object: Value| Placed { object, path: path.to_owned(), line };
        match document.value {
            Value::Null => {}
            Value::Object(mut list) if matches!(list.get("items"), Some(Value::Array(_))) => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    objects.extend(items.into_iter().map(placed));
                }
            }
            object @ Value::Object(_) => objects.push(placed(object)),
            _ => return Err(Failure::new(Exit::Failed, format!("{}:{line}", path.display()), "is no object")),
        }
    }
    Ok(())
}

/// The one MachineConfig of a file.
pub(super) fn one_machine_config(path: &Path) -> Result<MachineConfig, Failure> {
    let found = objects(&[path.to_owned()])?;
    match found.as_slice() {
        [one] => one.machine_config(),
        several => {
            let count = several.len();
            Err(Failure::new(
                Exit::Failed,
                format!("file {}", path.display()),
                format!("holds {count} objects instead of one MachineConfig"),
            )
            .hint("mainstay machine-config render FILE -o yaml makes one of many"))
        }
    }
}
