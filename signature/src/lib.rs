//! Verify and sign webhooks: Standard Webhooks, and the schemes of seventy senders. No I/O, no
//! clock, no chance, no HTTP types.
//!
//! A [`Verifier`] takes the requests of one sender: a [`Scheme`] by its name or of your own, and
//! the secrets that are live. The functions beside it are for a platform that signs its own
//! webhooks, in Standard Webhooks and two older forms that many receivers know.
//!
//! # Signing
//!
//! ```
//! use snaphook_signature::{Secret, sign_standard};
//!
//! let secret = Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")?;
//! let value = sign_standard("msg_p001", 1_700_000_000, b"", [&secret])?;
//! assert_eq!(value, "v1,66IolnAb9z3gvyhTfUsqY0AzTSucUaYdzGRMNf9QxiE=");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verifying
//!
//! ```
//! use snaphook_signature::{Clock, Received, Secret, verify_standard};
//!
//! let secret = Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")?;
//! let headers: [(&str, &[u8]); 3] = [
//!     ("webhook-id", b"msg_p001"),
//!     ("webhook-timestamp", b"1700000000"),
//!     ("webhook-signature", b"v1,66IolnAb9z3gvyhTfUsqY0AzTSucUaYdzGRMNf9QxiE="),
//! ];
//! let request = Received::new(&headers, b""); // the raw bytes, before any parsing
//! let now = 1_700_000_010;
//! assert!(verify_standard(&request, "webhook", &[secret], Clock::at(now)).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod certificate;
mod compare;
mod credential;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod dedup;
mod document;
mod generic;
mod handshake;
mod json;
mod jwt;
mod own;
mod place;
mod providers;
mod received;
mod scheme;
mod secret;
mod sign;
mod signer;
mod template;
mod time;
mod verifier;
mod verify;
#[cfg(feature = "web")]
mod web;

pub use credential::CredentialError;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use dedup::{Dedup, Memory};
#[cfg(feature = "redis")]
pub use dedup::{RedisDedup, Sight};
pub use document::{BodyHashDocument, OneOrMany, SchemeDocument, SignatureDocument, TimeDocument};
pub use handshake::{Answer, Handshake, Handshakes};
pub use received::{Clock, Genuine, Received, Refusal, Step, Verdict};
pub use scheme::{IdScope, Scheme, SchemeError};
pub use secret::{ED25519_BYTES, HMAC_BYTES, Kind, Secret, SecretError};
pub use sign::{SignError, sign_sha256_hex, sign_standard, sign_t_v1};
pub use signer::Outgoing;
pub use verifier::{Need, Verified, Verifier};
pub use verify::{verify_sha256_hex, verify_standard, verify_t_v1};
#[cfg(feature = "web")]
pub use web::{Rejection, VerifiedEvent, Webhooks};
#[cfg(feature = "tower")]
pub use web::{VerifyWebhook, WebhookLayer};
