//! What a source took goes on as it came: the raw body, and the provider's headers in their order.
//! Beside them stands our own signature, in headers that no provider has, so that a handler can
//! verify either.
//!
//! A provider's signature ages, and a retry may come hours later. So an endpoint may ask that it
//! be made anew at each attempt, as the provider would, over what its handler gets: the endpoint's
//! URL, where the URL is signed. Where that cannot be done (what the provider gives out can only
//! verify, or the source has no secret any more) the request goes with the signature that it had.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use snaphook_signature::{Outgoing, Received, sign_standard};

use super::{Parcel, PassedOn, PrepareError, ReadyEndpoint, USER_AGENT, sendable};
use crate::{
    domain::{profile::Scheme, time::Timestamp},
    world::Request,
};

pub(super) fn prepare(
    parcel: &Parcel<'_>,
    inbound: &PassedOn<'_>,
    now: Timestamp,
) -> Result<Request, PrepareError> {
    let endpoint = parcel.endpoint;
    let mut headers = HeaderMap::new();
    for (name, value) in inbound.headers.iter() {
        // What a server has read can be written; a row that came about otherwise is left out.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    let mut request = endpoint.request(headers, parcel.event.payload.clone());
    if let Some(outgoing) = sign_as_source(parcel, inbound, now) {
        take_over(&mut request, outgoing);
    }
    let headers = &mut request.headers;
    // The owner's win over the provider's, and ours over both.
    for name in endpoint.headers.keys() {
        headers.remove(name);
    }
    headers.extend(endpoint.headers.clone());
    if !headers.contains_key(header::USER_AGENT) {
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    }
    let (id, seconds) = (parcel.event.id.to_string(), now.seconds());
    let signature = sign_standard(&id, seconds, &request.body, endpoint.live(now))?;
    headers.insert("snaphook-id", sendable("snaphook-id", &id)?);
    headers.insert("snaphook-timestamp", HeaderValue::from(seconds));
    headers.insert("snaphook-signature", sendable("snaphook-signature", &signature)?);
    Ok(request)
}

/// What the provider would send now; `None` where it is not wanted, or cannot be made.
fn sign_as_source(parcel: &Parcel<'_>, inbound: &PassedOn<'_>, now: Timestamp) -> Option<Outgoing> {
    let endpoint: &ReadyEndpoint = parcel.endpoint;
    endpoint.signature.get(Scheme::Source)?;
    let headers: Vec<(&str, &[u8])> = inbound.headers.iter().collect();
    let received = Received::new(&headers, parcel.event.payload).with_url(&endpoint.url);
    inbound.signer?.sign(&received, inbound.key, now.seconds()).ok()
}

/// Puts what the provider would send in place of what it has sent.
fn take_over(request: &mut Request, outgoing: Outgoing) {
    for (name, _) in &outgoing.headers {
        request.headers.remove(name.as_str());
    }
    for (name, value) in outgoing.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::try_from(value))
        {
            request.headers.append(name, value);
        }
    }
    if let Some(body) = outgoing.body {
        request.body = body.into();
    }
    if let Some(url) = outgoing.url {
        request.url = url.into();
    }
}
