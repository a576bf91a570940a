//! The store of an embedded cluster, and the shared settings of servers on one store (KAPI-STORE-03).

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_apiserver::Storage;
use mainstay_apiserver::inflight::Limits;
use mainstay_store::etcd::{self, Prefix, Tls};
use mainstay_terminal::errors::{Exit, Failure};

/// The prefix of the API's keys.
const ROOT: &str = "/registry";

/// The flags of storage, of servers that share it, and of how much they take on.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Arguments {
    /// Where objects are stored: embedded, or etcd v3 at etcd://HOST:PORT[,HOST:PORT...] (etcds:// with certificates)
    #[arg(long, value_name = "embedded|etcd://...", default_value = "embedded")]
    storage: String,
    /// The CA of etcd's certificates
    #[arg(long, value_name = "FILE")]
    storage_ca: Option<PathBuf>,
    /// The client certificate for etcd
    #[arg(long, value_name = "FILE", requires = "storage_key")]
    storage_cert: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, value_name = "FILE", requires = "storage_cert")]
    storage_key: Option<PathBuf>,
    /// What all keys in etcd begin with
    #[arg(long, value_name = "PATH", default_value = ROOT)]
    storage_prefix: String,
    /// CAs and the ServiceAccount key that servers on one etcd have in common, as files or a copy of them [default: DATA_DIR/pki]
    #[arg(long, value_name = "DIR")]
    pki_dir: Option<PathBuf>,
    /// Run components only while holding a Lease, so that of several servers one does [default: true with etcd]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// How many reading requests may be in flight; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().reading)]
    max_requests_inflight: usize,
    /// How many writing requests may be in flight; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().writing)]
    max_mutating_requests_inflight: usize,
}

/// The arguments after reading.
#[derive(Debug, Clone, Default)]
pub struct Sharing {
    /// The store of objects.
    pub storage: Storage,
    /// The directory of the keys and certificates that servers share.
    pub pki_dir: Option<PathBuf>,
    /// True if components wait for the Lease.
    pub leader_elect: bool,
    /// Limits on requests in flight.
    pub limits: Limits,
}

impl Arguments {
    /// Reads the arguments, and the files that they name.
    pub fn read(&self) -> Result<Sharing, Failure> {
        let storage = self.storage()?;
        let shared = matches!(storage, Storage::Etcd(_));
        Ok(Sharing {
            storage,
            pki_dir: self.pki_dir.clone(),
            leader_elect: self.leader_elect.unwrap_or(shared),
            limits: Limits { reading: self.max_requests_inflight, writing: self.max_mutating_requests_inflight },
        })
    }

    fn storage(&self) -> Result<Storage, Failure> {
        let usage = |flag: &str, problem: &str| Failure::new(Exit::Usage, flag, problem.to_owned());
        if self.storage == "embedded" {
            if self.storage_ca.is_some() || self.storage_cert.is_some() || self.storage_prefix != ROOT {
                return Err(usage("--storage-ca, --storage-cert, --storage-key and --storage-prefix", "are for --storage etcd://..."));
            }
            return Ok(Storage::default());
        }
        let read = |path: &Path| std::fs::read(path).map_err(|error| Failure::failed(format!("certificate {}", path.display()), &error));
        let identity = match (&self.storage_cert, &self.storage_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        let tls = match &self.storage_ca {
            Some(path) => Some(Tls { authority: read(path)?, identity }),
            None if identity.is_some() => return Err(usage("--storage-cert", "needs --storage-ca, the CA of etcd's certificates")),
            None => None,
        };
        let theirs = self.storage_prefix.trim_end_matches('/');
        if !theirs.starts_with('/') || theirs.contains('\0') {
            return Err(usage("--storage-prefix", "is a path that begins with a slash, like /registry"));
        }
        let prefix = Prefix { ours: ROOT.to_owned(), theirs: theirs.to_owned() };
        let options = etcd::Options::parse(&self.storage, tls, prefix);
        let options = options.map_err(|error| {
            Failure::of(Exit::Usage, "--storage", &error)
                .hint("say --storage etcd://HOST:2379, etcds:// with --storage-ca FILE, or embedded")
        })?;
        Ok(Storage::Etcd(options))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        storage: Arguments,
    }

    fn read(arguments: &[&str]) -> Result<Sharing, Failure> {
        Program::try_parse_from([&["mainstay"], arguments].concat()).unwrap().storage.read()
    }

    /// KAPI-STORE-03, KAPI-SRV-06: the flags of storage and limits.
    #[test]
    fn flags() {
        let plain = read(&[]).unwrap();
        assert!(matches!(plain.storage, Storage::Embedded(_)) && !plain.leader_elect);
        assert_eq!(plain.limits, Limits { reading: 400, writing: 200 });
        let etcd = read(&["--storage", "etcd://a:1,b:2", "--storage-prefix", "/x/", "--max-requests-inflight", "7"]).unwrap();
        let Storage::Etcd(options) = &etcd.storage else { panic!("etcd") };
        assert_eq!((options.endpoints.as_slice(), options.prefix.theirs.as_str()), (["a:1".to_owned(), "b:2".to_owned()].as_slice(), "/x"));
        assert!(etcd.leader_elect && etcd.limits.reading == 7);
        assert!(!read(&["--storage", "etcd://a:1", "--leader-elect=false"]).unwrap().leader_elect);
        assert!(read(&["--leader-elect"]).unwrap().leader_elect);
        for wrong in [
            ["--storage", "etcds://a:1"].as_slice(),
            &["--storage", "redis://a:1"],
            &["--storage-prefix", "/x"],
            &["--storage", "etcd://a:1", "--storage-prefix", "x"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
