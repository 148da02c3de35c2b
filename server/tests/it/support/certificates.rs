//! Certificates for tests: an authority, and what it signs.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs::default_provider,
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// A certificate authority.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its chain, and its key.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: KeyPair,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let (key, params) = (KeyPair::generate().unwrap(), authority(name));
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    /// An authority that this one vouches for.
    pub fn below(&self, name: &str) -> Self {
        let (key, params) = (KeyPair::generate().unwrap(), authority(name));
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// A certificate for `name`, as `adjust` makes it.
    pub fn issue(&self, name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Identity {
        let (key, mut params) = (KeyPair::generate().unwrap(), end_entity(name));
        adjust(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { chain: vec![certificate.der().clone()], key }
    }
}

impl Identity {
    /// A certificate that vouches for itself.
    pub fn self_signed(name: &str, adjust: impl FnOnce(&mut CertificateParams)) -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), end_entity(name));
        adjust(&mut params);
        let certificate = params.self_signed(&key).unwrap();
        Self { chain: vec![certificate.der().clone()], key }
    }

    /// PEM of the chain and of the key.
    pub fn pem(&self) -> (String, String) {
        let chain = self.chain.iter().map(|der| {
            use base64::prelude::{BASE64_STANDARD, Engine};
            let text = BASE64_STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        });
        (chain.collect(), self.key.serialize_pem())
    }

    /// For a server with these protocols. With `clients` it demands a certificate of theirs.
    pub fn server(&self, protocols: &[&str], clients: Option<&Authority>) -> Arc<ServerConfig> {
        self.server_of(&[&TLS12, &TLS13], protocols, clients)
    }

    /// The same, with chosen versions of TLS.
    pub fn server_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
        clients: Option<&Authority>,
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.der()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::from_pem_slice(self.key.serialize_pem().as_bytes()).unwrap();
        let mut config = builder.with_single_cert(self.chain.clone(), key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn end_entity(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name = named(name);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params
}
