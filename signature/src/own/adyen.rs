//! Adyen's payment notifications: each item of the list carries a signature over eight of its
//! fields, with colons between and nothing escaped. Every item must hold.

use serde::Deserialize;

use super::mac_keys;
use crate::{
    compare::same,
    json::{self, Pointer, Scalar},
    received::{RAW_BODY, Received, Refusal, Step},
    scheme::Encoding,
    sign::tag,
    signer::Outgoing,
    verifier::{Proven, Verifier},
};

/// Items in one request. Adyen sends one; more than a page is an attempt to make us work.
const ITEMS_MAX: usize = 100;

/// The fields that count. One that is there twice is an error, so that nobody can sign one and be
/// read by the other.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    notification_items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "NotificationRequestItem")]
    request: Fields,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    #[serde(default)]
    psp_reference: Scalar,
    #[serde(default)]
    original_reference: Scalar,
    #[serde(default)]
    merchant_account_code: Scalar,
    #[serde(default)]
    merchant_reference: Scalar,
    #[serde(default)]
    amount: Amount,
    #[serde(default)]
    event_code: Scalar,
    #[serde(default)]
    success: Scalar,
    #[serde(default)]
    additional_data: AdditionalData,
}

#[derive(Default, Deserialize)]
struct Amount {
    #[serde(default)]
    value: Scalar,
    #[serde(default)]
    currency: Scalar,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdditionalData {
    #[serde(default)]
    hmac_signature: Option<Scalar>,
}

impl Fields {
    fn signed(&self) -> String {
        let fields = [
            &self.psp_reference,
            &self.original_reference,
            &self.merchant_account_code,
            &self.merchant_reference,
            &self.amount.value,
            &self.amount.currency,
            &self.event_code,
            &self.success,
        ];
        fields.map(|field| &*field.0).join(":")
    }
}

fn items(body: &[u8]) -> Result<Vec<Item>, Refusal> {
    let wrong = |problem| Refusal::malformed(Step::Body, "the body", problem);
    let notification: Notification =
        serde_json::from_slice(body).map_err(|_| wrong("is no notification of Adyen's"))?;
    match notification.notification_items.len() {
        0 => Err(wrong("has no item")),
        1..=ITEMS_MAX => Ok(notification.notification_items),
        _ => Err(wrong("has more than 100 items")),
    }
}

pub(crate) fn prove(verifier: &Verifier, request: &Received<'_>) -> Result<Proven, Refusal> {
    let mut secret = 0;
    let items = items(request.body())?;
    for item in &items {
        let given = match &item.request.additional_data.hmac_signature {
            Some(given) if !given.0.is_empty() => given,
            _ => {
                return Err(Refusal::malformed(
                    Step::Signature,
                    "hmacSignature",
                    "is missing from an item",
                ));
            }
        };
        let message = item.request.signed();
        let genuine = mac_keys(verifier).find(|(_, key)| {
            let expected = Encoding::Base64.write(tag(key, &[message.as_bytes()]).as_ref());
            same(expected.as_bytes(), given.0.as_bytes())
        });
        let found =
            genuine.ok_or_else(|| Refusal::bad_signature("hmacSignature of an item", RAW_BODY));
        secret = found?.0;
    }
    Ok(Proven::by(secret))
}

/// Puts a signature into each item.
pub(crate) fn sign(verifier: &Verifier, request: &Received<'_>) -> Result<Outgoing, Refusal> {
    let mut body = request.body().to_vec();
    let Some((_, key)) = mac_keys(verifier).next() else { return Ok(Outgoing::default()) };
    for (index, item) in items(&body)?.iter().enumerate() {
        let tag = tag(key, &[item.request.signed().as_bytes()]);
        let place = format!(
            "/notificationItems/{index}/NotificationRequestItem/additionalData/hmacSignature"
        );
        let place = Pointer::parse(&place).expect("it begins with a slash");
        body = json::set(&body, &place, &Encoding::Base64.write(tag.as_ref()))
            .ok_or_else(|| Refusal::malformed(Step::Body, "additionalData", "is no object"))?;
    }
    Ok(Outgoing { body: Some(body), ..Outgoing::default() })
}
