//! The registry options of `oc adm release`, and releases read with them.

use std::path::PathBuf;

use clap::Args;
use mainstay_oci::{Client, Credentials, ErrorKind, Platform};
use mainstay_release_source::{Limits, Place, ReadError, Release};
use mainstay_terminal::errors::Failure;
use mainstay_terminal::images;

use super::{Refused, refuse};

/// The longest auth file or list of mirrors that is read.
const MAX_FILE: u64 = 4 << 20;

/// Options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Registries")]
pub(super) struct Options {
    /// An auth file, preferred to those of the user
    #[arg(short = 'a', long, value_name = "FILE")]
    registry_config: Option<PathBuf>,
    /// Allow registries without verified TLS
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, hide_default_value = true, hide_possible_values = true)]
    pub insecure: bool,
    /// A folder with certificate authorities of registries, each in a folder HOST
    #[arg(long, value_name = "DIR")]
    certificate_dir: Option<PathBuf>,
    /// A file with certificate authorities that are trusted for every registry, besides the system's
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    skip_verification: bool,
    /// The system and the processors of the image to take where it has several, such as linux/arm64
    #[arg(long, value_name = "OS/ARCH")]
    filter_by_os: Option<String>,
    /// A file with an ImageContentSourcePolicy, whose mirrors are used (deprecated: use --idms-file)
    #[arg(long, value_name = "FILE")]
    icsp_file: Option<PathBuf>,
    /// A file with an ImageDigestMirrorSet, whose mirrors are used
    #[arg(long, value_name = "FILE")]
    idms_file: Option<PathBuf>,
    /// The folder that file:// images are in
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The number of images that are asked for at the same time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub max_per_registry: usize,
}

impl Options {
    /// Refuses options that contradict each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.skip_verification {
            return Err(refuse(&Refused::Usage("--skip-verification is not offered: content is always compared with its digest")));
        }
        if self.icsp_file.is_some() && self.idms_file.is_some() { Err(refuse(&Refused::MirrorFiles)) } else { Ok(()) }
    }

    /// A client with the user's settings and these options.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let mut config = images::config()?;
        config.insecure |= self.insecure;
        config.certificates.splice(0..0, self.certificate_dir.clone());
        if let Some(path) = &self.certificate_authority {
            config.authorities.push((format!("file {}", path.display()), read(path)?.into_bytes()));
        }
        if let Some(path) = &self.registry_config {
            let text = read(path)?;
            let subject = path.display().to_string();
            let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
            config.credentials.prefer(Credentials::parse(&subject, &text).map_err(failed)?);
        }
        if self.icsp_file.is_some() {
            super::tell(
                "Flag --icsp-file has been deprecated, support for it will be removed in a future release. Use --idms-file instead.",
            );
        }
        for path in self.icsp_file.iter().chain(&self.idms_file) {
            let text = read(path)?;
            let subject = format!("file {}", path.display());
            for document in mainstay_yaml::stream(&text) {
                let document = document.map_err(|error| Failure::failed(&subject, &error))?;
                config.registries.add_mirror_sets([&document.value]).map_err(|error| images::failure(&subject, &error))?;
            }
        }
        if let Some(platform) = &self.filter_by_os {
            config.platform = platform.parse::<Platform>().map_err(|error| images::failure("--filter-by-os", &error))?;
        }
        Client::new(config).map_err(|error| images::failure("registry client", &error))
    }

    /// Reads a release; a failure is in `oc`'s words.
    pub(super) async fn read(&self, named: &str, client: &Client) -> Result<Release, Refused> {
        let text = match (named.strip_prefix("file://"), &self.dir) {
            (Some(path), Some(dir)) => dir.join(path).display().to_string(),
            (Some(path), None) => path.to_owned(),
            (None, _) => named.to_owned(),
        };
        let place = Place::parse(&text).map_err(|error| told(named, &error))?;
        let client = || Ok::<_, ReadError>(client.clone());
        mainstay_release_source::read(&place, client, &Limits::default()).await.map_err(|error| told(named, &error))
    }
}

/// The words of `oc` for a release that cannot be read.
pub(super) fn told(image: &str, error: &ReadError) -> Refused {
    match error.cause().map(mainstay_oci::Error::kind) {
        Some(ErrorKind::DigestMismatch) => Refused::Tampered,
        Some(ErrorKind::NotFound) => Refused::NotFound(image.to_owned()),
        Some(ErrorKind::Tls) => {
            let host = image.split('/').next().unwrap_or_default();
            let cause = format!("Get \"https://{host}/v2/\": http: server gave HTTP response to HTTPS client");
            Refused::Unreadable { image: image.to_owned(), cause }
        }
        _ => Refused::Unreadable { image: image.to_owned(), cause: mainstay_diagnostics::chain(error) },
    }
}

fn read(path: &std::path::Path) -> Result<String, Failure> {
    super::extract::read_small(path, MAX_FILE)
}
