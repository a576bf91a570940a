//! The search for signatures, and the memory of what was verified.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::select_all;
use jiff::Timestamp;
use mainstay_golang::{quote, url};
use mainstay_oci::{KeyExpiry, Outbound, OutboundConfig, Rejection};
use mainstay_release::Manifest;
use mainstay_release::signature::{
    ConfigError, Exhausted, Keyring, ReleaseDigest, SignatureConfig, SignatureConfigMap, SignatureStore, StoreAddress, Verification,
    Verified, VerifyError,
};

use super::fetch;

/// Digests whose signatures are remembered.
const MAX_KNOWN: usize = 64;

/// Verifies releases with the keys of the running one.
pub struct Verifier {
    /// Absent if the running release does not say whose signatures it wants.
    wanted: Option<Wanted>,
    known: Mutex<Known>,
}

struct Wanted {
    stores: Vec<StoreAddress>,
    keyrings: BTreeMap<String, Keys>,
}

#[derive(Default)]
struct Known {
    signatures: BTreeMap<ReleaseDigest, Vec<Vec<u8>>>,
    /// Oldest first.
    order: VecDeque<ReleaseDigest>,
}

struct Keys(mainstay_oci::Keyring);

impl Keyring for Keys {
    type Error = Rejection;

    fn open(&self, message: &[u8], now: Timestamp) -> Result<Vec<u8>, Rejection> {
        self.0.open(message, u64::try_from(now.as_second()).unwrap_or(0), KeyExpiry::WhenSigned)
    }
}

/// Where signatures are looked for, besides the stores of the running release.
#[derive(Clone, Copy, Debug)]
pub struct Stores<'a> {
    /// ConfigMaps of the cluster.
    pub config_maps: &'a [SignatureConfigMap],
    /// `spec.signatureStores` of the ClusterVersion, which takes the place of the release's stores; `None` if it is not set.
    pub custom: Option<&'a [CustomStore]>,
    /// Proxies and authorities of requests.
    pub outbound: &'a OutboundConfig,
    /// Time for the whole search.
    pub deadline: Duration,
}

/// An entry of `spec.signatureStores`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomStore {
    /// Its URL.
    pub url: String,
    /// The authority of its certificate.
    pub authority: StoreAuthority,
}

/// The authority of a store's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAuthority {
    /// Those of all requests.
    Default,
    /// The content of `ca.crt` in this ConfigMap, besides those.
    ConfigMap {
        /// The ConfigMap's name.
        name: String,
        /// The certificates, as PEM.
        pem: Vec<u8>,
    },
    /// This ConfigMap, which is absent or has no `ca.crt`.
    Missing(String),
}

/// A store of `spec.signatureStores` that cannot be asked.
#[derive(Debug, thiserror::Error)]
enum StoreProblem {
    #[error(transparent)]
    Url(#[from] url::InvalidUrl),
    #[error("the store {0} scheme is unrecognized")]
    Scheme(String),
    #[error("the store {url} cannot be trusted: ConfigMap {} in openshift-config has no certificates in ca.crt", quote(.name))]
    NoAuthority { url: String, name: String },
    #[error(transparent)]
    Client(#[from] mainstay_oci::Error),
}

impl Verifier {
    /// Creates a verifier from the manifests of the running release. Without a ConfigMap for it nothing can be verified.
    pub fn of<'m>(manifests: impl IntoIterator<Item = &'m Manifest>) -> Result<Self, ConfigError> {
        let wanted = SignatureConfig::of(manifests)?.map(Wanted::of).transpose()?;
        Ok(Self { wanted, known: Mutex::default() })
    }

    /// Verifies the image that a pullspec names by its digest.
    pub async fn verify(&self, image: &str, stores: Stores<'_>, now: Timestamp) -> Result<Verified, VerifyError> {
        let wanted = self.wanted.as_ref().ok_or(VerifyError::NotPossible)?;
        let mut verification = Verification::new(ReleaseDigest::text_of(image), &wanted.keyrings)?;
        let digest = verification.digest().clone();
        if let Some(signatures) = self.known().signatures.get(&digest) {
            return Ok(Verified { digest, signatures: signatures.clone() });
        }
        let clock = Clock { start: now, since: Instant::now() };
        if tokio::time::timeout(stores.deadline, wanted.search(&mut verification, stores, clock)).await.is_err() {
            verification.missed("context deadline exceeded", clock.now());
        }
        let verified = verification.finish()?;
        self.known().keep(&verified);
        Ok(verified)
    }

    /// The signatures of what was verified, by digest: the content of the ConfigMap `signatures-managed`.
    pub fn verified(&self) -> BTreeMap<ReleaseDigest, Vec<Vec<u8>>> {
        self.known().signatures.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Both collections are whole between statements, and an entry of the order without signatures does no harm.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn keep(&mut self, verified: &Verified) {
        if self.signatures.insert(verified.digest.clone(), verified.signatures.clone()).is_none() {
            self.order.push_back(verified.digest.clone());
        }
        if self.order.len() > MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.signatures.remove(&oldest);
        }
    }
}

/// The time of a search, which goes on.
#[derive(Clone, Copy)]
struct Clock {
    start: Timestamp,
    since: Instant,
}

impl Clock {
    fn now(self) -> Timestamp {
        self.start.checked_add(self.since.elapsed()).unwrap_or(self.start)
    }
}

impl Wanted {
    fn of(config: SignatureConfig) -> Result<Self, ConfigError> {
        let SignatureConfig { source, keyrings, stores, ignored } = config;
        for key in ignored {
            tracing::warn!(%source, %key, "an unexpected key is ignored (expected store-* or verifier-public-key-*)");
        }
        let read = |(name, content): (String, String)| {
            let invalid = |problem| ConfigError::Keyring { source_name: source.clone(), key: name.clone(), problem };
            let mut keys = mainstay_oci::Keyring::default();
            keys.add(content.as_bytes()).map_err(|error| invalid(error.to_string()))?;
            if keys.is_empty() {
                return Err(invalid("it holds no OpenPGP public key".to_owned()));
            }
            Ok((name, Keys(keys)))
        };
        let keyrings = keyrings.into_iter().map(read).collect::<Result<_, ConfigError>>()?;
        Ok(Self { stores, keyrings })
    }

    async fn search(&self, verification: &mut Verification<'_, Keys>, stores: Stores<'_>, clock: Clock) {
        let digest = verification.digest().clone();
        for map in stores.config_maps {
            for signature in map.signatures(&digest) {
                if verification.offer(signature, clock.now()) {
                    return;
                }
            }
            let exhausted = Exhausted::ConfigMap { prefix: SignatureConfigMap::prefix(&digest), name: map.name.clone() };
            verification.missed(exhausted, clock.now());
        }
        match stores.custom {
            Some([]) => verification.missed(Exhausted::NoCustom, clock.now()),
            Some(custom) => search_custom(custom, verification, stores.outbound, clock).await,
            None => self.search_own(verification, stores.outbound, clock).await,
        }
    }

    async fn search_own(&self, verification: &mut Verification<'_, Keys>, outbound: &OutboundConfig, clock: Clock) {
        let client = match Outbound::new(outbound) {
            Ok(client) => Arc::new(client),
            Err(error) => return verification.missed(error, clock.now()),
        };
        let asked = self.stores.iter().map(|store| (client.clone(), store.clone())).collect();
        if search_all(asked, verification, clock).await {
            return;
        }
        let own = SignatureStore::Parallel(self.stores.iter().cloned().map(SignatureStore::One).collect());
        let inner = SignatureStore::Serial(vec![SignatureStore::Custom(None), own.clone()]);
        let all = SignatureStore::Serial(vec![SignatureStore::ConfigMaps, inner.clone()]);
        for store in [own, inner, all] {
            verification.missed(Exhausted::Store(store), clock.now());
        }
    }
}

async fn search_custom(custom: &[CustomStore], verification: &mut Verification<'_, Keys>, outbound: &OutboundConfig, clock: Clock) {
    let (mut asked, mut addresses, mut problem) = (Vec::new(), Vec::new(), None);
    for store in custom {
        match store.client(outbound) {
            Ok((client, address)) => {
                addresses.push(SignatureStore::One(address.clone()));
                asked.push((Arc::new(client), address));
            }
            Err(found) => {
                verification.missed(&found, clock.now());
                problem = Some(found);
            }
        }
    }
    if search_all(asked, verification, clock).await {
        return;
    }
    if problem.is_none() {
        verification.missed(Exhausted::Store(SignatureStore::Parallel(addresses)), clock.now());
    }
    verification.missed(Exhausted::Custom, clock.now());
}

impl CustomStore {
    fn client(&self, outbound: &OutboundConfig) -> Result<(Outbound, StoreAddress), StoreProblem> {
        let address = StoreAddress::Web(url::parse(&self.url)?);
        if !self.url.starts_with("http://") && !self.url.starts_with("https://") {
            return Err(StoreProblem::Scheme(self.url.clone()));
        }
        let mut outbound = outbound.clone();
        match &self.authority {
            StoreAuthority::Default => {}
            StoreAuthority::ConfigMap { name, pem } => {
                outbound.authorities.push((format!("ConfigMap openshift-config/{name}"), pem.clone()));
            }
            StoreAuthority::Missing(name) => return Err(StoreProblem::NoAuthority { url: self.url.clone(), name: name.clone() }),
        }
        Ok((Outbound::new(&outbound)?, address))
    }
}

/// Asks all stores at the same time; returns true if every keyring was satisfied.
async fn search_all(stores: Vec<(Arc<Outbound>, StoreAddress)>, verification: &mut Verification<'_, Keys>, clock: Clock) -> bool {
    let digest = verification.digest().clone();
    let mut found = select_all(stores.into_iter().map(|(client, store)| fetch::signatures(client, store, digest.clone())));
    while let Some(found) = found.next().await {
        match found {
            Ok(signature) if verification.offer(&signature, clock.now()) => return true,
            Ok(_) => {}
            Err(missed) => verification.missed(missed, clock.now()),
        }
    }
    verification.is_done()
}
