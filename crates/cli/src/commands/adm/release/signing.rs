//! The key that signs a first release or the programs of one, and its passphrase.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_release_samples::SigningKey;
use mainstay_terminal::errors::{Exit, Failure};

use crate::prompt;

/// The longest key and the longest passphrase, in bytes.
const MAX_KEY: u64 = 1 << 20;
const MAX_PASSPHRASE: u64 = 64 << 10;

/// The key that signs.
#[derive(Debug, Args)]
pub(super) struct Signing {
    /// Sign with this OpenPGP secret key, in armour; the passphrase of a locked one is asked for at the terminal
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    /// Read the passphrase of the signing key from the first line of this file
    #[arg(long, value_name = "FILE", requires = "signing_key")]
    signing_key_passphrase_file: Option<PathBuf>,
}

impl Signing {
    /// Reads the key, if one is named, and finds out whether it signs.
    pub(super) fn key(&self) -> Result<Option<SigningKey>, Failure> {
        let Some(path) = &self.signing_key else { return Ok(None) };
        let subject = format!("--signing-key {}", path.display());
        let text = super::extract::read_small(path, MAX_KEY)?;
        let mut key = SigningKey::read(&text)
            .map_err(|error| Failure::of(Exit::Usage, &subject, &error).hint("gpg --export-secret-keys --armor KEY writes one"))?;
        if key.is_locked() {
            let passphrase = self.passphrase(path, &subject)?;
            key.unlock(&passphrase).map_err(|error| Failure::of(Exit::Failed, &subject, &Locked(error)))?;
        }
        // What cannot sign is found out before anything is written.
        key.detached(b"").map_err(|error| Failure::failed(&subject, &error))?;
        Ok(Some(key))
    }

    fn passphrase(&self, key: &Path, subject: &str) -> Result<String, Failure> {
        let line = match &self.signing_key_passphrase_file {
            Some(file) => super::extract::read_small(file, MAX_PASSPHRASE)?,
            None if std::io::stdin().is_terminal() => {
                prompt::unseen(&format!("passphrase of {}: ", key.display())).map_err(|error| Failure::failed(subject, &error))?
            }
            None => {
                return Err(Failure::new(
                    Exit::Usage,
                    subject,
                    "is locked, and standard input is no terminal to ask for its passphrase at",
                )
                .hint("--signing-key-passphrase-file FILE names a file with it"));
            }
        };
        Ok(line.lines().next().unwrap_or_default().to_owned())
    }
}

/// A key that its passphrase does not open.
#[derive(Debug, thiserror::Error)]
#[error("the passphrase does not open the key")]
struct Locked(#[source] mainstay_release_samples::Error);
