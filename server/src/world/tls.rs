//! TLS settings: whom we trust and who we are.
//!
//! Every set of certificates has a configuration of its own, with its own sessions, so that what
//! one endpoint's owner trusts or proves never serves another. There is no switch that turns
//! verification off.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    ClientConfig, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::{CryptoProvider, aws_lc_rs},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use super::{SendError, TlsProfile, tls_verify::Explaining};
use crate::domain::outcome::Plain;

/// Configurations of endpoints' own certificates that are kept, a few 10 KiB each. Beyond it all
/// are forgotten and made anew as they are needed, which costs a millisecond each.
const PROFILES_MAX: usize = 1024;

/// Whom to trust where an endpoint names no authority of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Roots {
    /// The authorities that the system trusts; the bundled ones where the system has none, as in
    /// an image without files.
    #[default]
    System,
    /// Mozilla's list, as of the build.
    Bundled,
    /// Those of a PEM file, and no others.
    File(PathBuf),
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of roots.
    #[error("the file of trusted certificates {path} cannot be read: {cause}")]
    RootsUnreadable {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong with it.
        cause: rustls_pki_types::pem::Error,
    },
    /// No root at all.
    #[error("there is no trusted certificate in {place}; without one no receiver can be verified")]
    NoRoots {
        /// Where we looked.
        place: String,
    },
    /// An endpoint's authorities.
    #[error("the endpoint's authority is no certificate in PEM form: {0}")]
    Authority(String),
    /// An endpoint's client certificate.
    #[error("the endpoint's client certificate is no certificate in PEM form: {0}")]
    ClientCertificate(String),
    /// An endpoint's private key. Says nothing of the key itself.
    #[error(
        "the endpoint's client key is no unencrypted private key in PEM form (PKCS#8, PKCS#1 or SEC1)"
    )]
    ClientKey,
    /// The two do not belong together, or are of a kind that we do not know.
    #[error("the endpoint's client certificate and key cannot be used together: {0}")]
    ClientPair(String),
}

impl TlsError {
    /// Which of an endpoint's certificates is meant, by its name in `tls`.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::ClientCertificate(_) => "client_cert",
            Self::ClientKey | Self::ClientPair(_) => "client_key",
            Self::Authority(_) | Self::RootsUnreadable { .. } | Self::NoRoots { .. } => "ca",
        }
    }
}

/// Refuses certificates that could not be used, so that this shows when an endpoint is saved and
/// not when the first event is due.
pub fn check_profile(profile: &TlsProfile) -> Result<(), TlsError> {
    build(Arc::new(RootCertStore::empty()), Some(profile)).map(drop)
}

/// A configuration, and the number by which the pool keeps its connections apart.
#[derive(Clone)]
pub(super) struct TlsSetup {
    pub id: u64,
    pub config: Arc<ClientConfig>,
}

/// The configurations in use.
pub(super) struct TlsSetups {
    roots: Arc<RootCertStore>,
    standard: TlsSetup,
    profiles: Mutex<Profiles>,
}

struct Profiles {
    setups: HashMap<Arc<TlsProfile>, TlsSetup>,
    next_id: u64,
}

impl TlsSetups {
    pub(super) fn new(roots: &Roots) -> Result<Self, TlsError> {
        let roots = Arc::new(load(roots)?);
        let standard = TlsSetup { id: 0, config: Arc::new(build(roots.clone(), None)?) };
        let profiles = Mutex::new(Profiles { setups: HashMap::new(), next_id: 1 });
        Ok(Self { roots, standard, profiles })
    }

    /// The configuration for an endpoint; the same for equal certificates.
    pub(super) fn of(&self, profile: Option<&Arc<TlsProfile>>) -> Result<TlsSetup, SendError> {
        let Some(profile) = profile else {
            return Ok(self.standard.clone());
        };
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(setup) = profiles.setups.get(profile) {
            return Ok(setup.clone());
        }
        let config = build(self.roots.clone(), Some(profile))
            .map_err(|error| SendError::new(Plain::InvalidRequest, error.to_string()))?;
        if profiles.setups.len() >= PROFILES_MAX {
            profiles.setups.clear();
        }
        let setup = TlsSetup { id: profiles.next_id, config: Arc::new(config) };
        profiles.next_id += 1; // never the same number for other certificates
        profiles.setups.insert(profile.clone(), setup.clone());
        Ok(setup)
    }
}

fn load(roots: &Roots) -> Result<RootCertStore, TlsError> {
    let store = match roots {
        Roots::Bundled => bundled(),
        Roots::File(path) => from_file(path)?,
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "some of the system's trusted certificates cannot be read");
            }
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                tracing::info!("the system has no trusted certificates; using the bundled ones");
                store = bundled();
            }
            store
        }
    };
    Ok(store)
}

fn bundled() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn from_file(path: &Path) -> Result<RootCertStore, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|cause| TlsError::RootsUnreadable { path: path.to_owned(), cause })?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        return Err(TlsError::NoRoots { place: path.display().to_string() });
    }
    Ok(store)
}

fn build(
    roots: Arc<RootCertStore>,
    profile: Option<&TlsProfile>,
) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = match profile.and_then(|profile| profile.ca.as_deref()) {
        Some(pem) => Arc::new(private_roots(pem)?),
        None => roots,
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for TLS 1.2 and 1.3");
    let identity = profile.and_then(|profile| profile.identity.as_ref());
    let builder = match verifier(roots, provider) {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        // Only to check a profile without an authority: nothing would be trusted with it.
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(client_chain(chain)?, client_key(key)?)
            .map_err(|error| TlsError::ClientPair(error.to_string()))?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(roots: Arc<RootCertStore>, provider: Arc<CryptoProvider>) -> Option<Explaining> {
    WebPkiServerVerifier::builder_with_provider(roots, provider).build().ok().map(Explaining)
}

fn private_roots(pem: &str) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| TlsError::Authority(error.to_string()))?;
        store.add(certificate).map_err(|error| TlsError::Authority(error.to_string()))?;
    }
    if store.is_empty() {
        return Err(TlsError::Authority("it has no BEGIN CERTIFICATE line".to_owned()));
    }
    Ok(store)
}

fn client_chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::ClientCertificate(error.to_string()))?;
    if chain.is_empty() {
        let problem = "it has no BEGIN CERTIFICATE line".to_owned();
        return Err(TlsError::ClientCertificate(problem));
    }
    Ok(chain)
}

fn client_key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| TlsError::ClientKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn certificates_that_cannot_be_used_are_refused_by_name() {
        let (certificate, key) = pair("a.example");
        let (_, other_key) = pair("b.example");
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        let of = |ca: Option<&str>, identity: Option<(&str, &str)>| TlsProfile {
            ca: ca.map(str::to_owned),
            identity: identity.map(|(chain, key)| (chain.to_owned(), key.to_owned())),
        };
        for (profile, expected) in [
            (of(None, None), "ok"),
            (of(Some(&certificate), Some((&certificate, &key))), "ok"),
            (of(None, Some((&certificate, &key))), "ok"),
            (of(Some("hello"), None), "ca: the endpoint's authority"),
            (of(Some(&junk), None), "ca: the endpoint's authority"),
            (of(Some(&key), None), "ca: the endpoint's authority"),
            (of(None, Some(("hello", &key))), "client_cert: the endpoint's client certificate"),
            (of(None, Some((&certificate, "hello"))), "client_key: the endpoint's client key"),
            (of(None, Some((&certificate, &other_key))), "client_key: the endpoint's client"),
            (of(None, Some((&junk, &key))), "client_key: the endpoint's client"),
        ] {
            let told = |error: TlsError| format!("{}: {error}", error.field());
            let text = check_profile(&profile).map_or_else(told, |()| "ok".into());
            assert!(text.starts_with(expected), "{text}: expected {expected}");
            assert!(!text.contains("BEGIN PRIVATE"), "a key shows: {text}");
        }
    }

    #[test]
    fn a_missing_or_empty_file_of_roots_is_refused_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing").unwrap();
        for path in [empty, folder.path().join("missing.pem")] {
            let error = TlsSetups::new(&Roots::File(path.clone())).err().unwrap();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn equal_certificates_share_a_setup_and_others_do_not() {
        let setups = TlsSetups::new(&Roots::Bundled).unwrap();
        let profile = |name| Arc::new(TlsProfile { ca: Some(name), identity: None });
        let (first, _) = pair("a.example");
        let (second, _) = pair("a.example");

        let one = setups.of(Some(&profile(first.clone()))).unwrap().id;
        let same = setups.of(Some(&profile(first))).unwrap().id;
        let other = setups.of(Some(&profile(second))).unwrap().id;

        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_ne!(one, setups.of(None).unwrap().id);
    }
}
