//! Logging in and out: writes the auth file that is also read, in Docker's form, and leaves its other content alone.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::auth::{MAX_FILE, normal_key};
use crate::error::Error;
use crate::helper;

/// Place of a registry's stored password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// In the file itself.
    File,
    /// In this helper, which the file names.
    Helper(String),
}

/// Stores a user's name and password for a registry: with the helper that the file names for it, else in the file, which only this user may
/// read.
pub async fn log_in(file: &Path, registry: &str, user: &str, password: &str) -> Result<Kept, Error> {
    let mut content = load(file)?;
    if let Some(helper) = helper_of(&content, registry) {
        helper::store(&helper, registry, user, password).await?;
        return Ok(Kept::Helper(helper));
    }
    let auths = content.entry("auths").or_insert_with(|| Value::Object(Map::new()));
    if auths.is_null() {
        *auths = Value::Object(Map::new());
    }
    let Some(auths) = auths.as_object_mut() else { return Err(refuse(file, "auths is no mapping")) };
    // Only one entry may apply to the registry.
    auths.retain(|key, _| normal_key(key) != normal_key(registry));
    auths.insert(written(registry).to_owned(), json!({ "auth": STANDARD.encode(format!("{user}:{password}")) }));
    save(file, &content)?;
    Ok(Kept::File)
}

/// Removes the credentials of a registry from the file and from its helper. Returns true if there were any.
pub async fn log_out(file: &Path, registry: &str) -> Result<bool, Error> {
    let mut content = load(file)?;
    let mut found = false;
    if let Some(helper) = helper_of(&content, registry) {
        found |= helper::erase(&helper, registry).await?;
    }
    if let Some(auths) = content.get_mut("auths").and_then(Value::as_object_mut) {
        let before = auths.len();
        auths.retain(|key, _| normal_key(key) != normal_key(registry));
        if auths.len() < before {
            found = true;
            save(file, &content)?;
        }
    }
    Ok(found)
}

/// Returns true if the file itself has an entry for a registry.
pub(crate) fn mentions(file: &Path, registry: &str) -> Result<bool, Error> {
    let content = load(file)?;
    let keys = ["auths", "credHelpers"].into_iter().filter_map(|list| content.get(list)?.as_object()).flat_map(Map::keys);
    Ok(keys.into_iter().any(|key| normal_key(key) == normal_key(registry)))
}

/// Returns the key of a registry in the file; Docker has its own name for its own registry.
fn written(registry: &str) -> &str {
    if normal_key(registry) == "docker.io" { "https://index.docker.io/v1/" } else { registry }
}

fn helper_of(content: &Map<String, Value>, registry: &str) -> Option<String> {
    let own = content.get("credHelpers").and_then(Value::as_object).and_then(|helpers| {
        helpers.iter().find(|(key, _)| normal_key(key) == normal_key(registry)).and_then(|(_, helper)| helper.as_str())
    });
    own.or_else(|| content.get("credsStore")?.as_str()).filter(|helper| !helper.is_empty()).map(str::to_owned)
}

fn load(file: &Path) -> Result<Map<String, Value>, Error> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(Error::Io { path: file.to_owned(), source: error }),
    };
    if text.len() > MAX_FILE {
        return Err(Error::Limit { subject: file.display().to_string(), what: "size in bytes", limit: MAX_FILE as u64 });
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&text) {
        Ok(Value::Object(content)) => Ok(content),
        Ok(_) => Err(refuse(file, "is no auth file: expected a mapping")),
        // The content of the file is never shown.
        Err(error) => Err(refuse(file, &format!("is no auth file: no JSON at line {}, column {}", error.line(), error.column()))),
    }
}

/// Writes the file atomically, readable by this user alone. If the file is a link, its target is replaced.
fn save(file: &Path, content: &Map<String, Value>) -> Result<(), Error> {
    let place = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(Error::io(folder))?;
    let mut text = serde_json::to_string_pretty(content).map_err(|error| refuse(file, &error.to_string()))?;
    text.push('\n');
    // Temporary files are made for their owner alone.
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(Error::io(&place))?;
    new.persist(&place).map_err(|error| Error::Io { path: place, source: error.error })?;
    Ok(())
}

fn refuse(file: &Path, problem: &str) -> Error {
    Error::Configuration { subject: file.display().to_string(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::auth::{Credential, Credentials};

    /// What is written is what is read; what else stands in the file stays; the file is for its user alone.
    #[tokio::test]
    async fn in_and_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/config.json");
        assert_eq!(log_in(&file, "quay.io", "dev", "pa:ss").await.unwrap(), Kept::File);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
        let read = || Credentials::parse("file", &fs::read_to_string(&file).unwrap()).unwrap();
        let basic = |user: &str, password: &str| Credential::Basic { user: user.to_owned(), password: password.to_owned() };
        assert_eq!(read().find("quay.io", "org/a"), Some(&basic("dev", "pa:ss")));

        let mut content = load(&file).unwrap();
        content.insert("HttpHeaders".to_owned(), json!({"X": "1"}));
        content["auths"]["index.docker.io"] = json!({"auth": "YTpi"});
        save(&file, &content).unwrap();
        log_in(&file, "docker.io", "me", "new").await.unwrap();
        assert_eq!(read().find("docker.io", "library/a"), Some(&basic("me", "new")));
        assert_eq!(
            load(&file).unwrap()["auths"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["https://index.docker.io/v1/", "quay.io"]
        );
        assert!(mentions(&file, "docker.io").unwrap() && !mentions(&file, "ghcr.io").unwrap());
        assert!(log_out(&file, "index.docker.io").await.unwrap());
        assert!(!log_out(&file, "docker.io").await.unwrap());
        assert_eq!(load(&file).unwrap()["HttpHeaders"]["X"], "1");
        fs::write(&file, "{\"auths\": secret").unwrap();
        let error = log_in(&file, "quay.io", "dev", "x").await.unwrap_err().to_string();
        assert!(error.ends_with("is no auth file: no JSON at line 1, column 11") && !error.contains("secret"), "{error}");
    }
}
