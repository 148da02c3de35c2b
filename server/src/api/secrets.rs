//! `…/endpoints/{endpoint}/secrets`: what signatures are made with. A secret's text is given by
//! create, rotate and reveal, to keys with the scope `manage`, and may not be stored on the way.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderName, StatusCode, header},
};
use serde::{Deserialize, Serialize};
use snaphook_signature::Secret;
use utoipa::ToSchema;

use super::{
    Api,
    auth::{Manager, Reader},
    error::ApiError,
    extract::{MaybeBody, NoBody, Params, id},
    listing::{Listing, try_listing},
};
use crate::{
    domain::{
        duration,
        id::{EndpointId, SecretId},
        problem::Problem,
        secret_kind::SecretKind,
        time::Timestamp,
    },
    manage::{
        ManageError,
        secrets::{NewSecret, OVERLAP_DEFAULT},
    },
    store::SecretRow,
};

/// Keeps an answer out of every cache.
const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// A secret of an endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = Secret)]
pub struct SecretBody {
    #[schema(value_type = String)]
    id: SecretId,
    #[schema(value_type = String)]
    endpoint: EndpointId,
    /// `hmac` or `ed25519`.
    #[schema(value_type = String)]
    kind: SecretKind,
    /// Tells two secrets apart; gives nothing of them away.
    fingerprint: String,
    /// Of an Ed25519 secret: what its receiver needs, `whpk_…`.
    public_key: Option<String>,
    /// Whether it signs now.
    live: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// It signs until then.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// Its text, `whsec_…` or `whsk_…`: in the answers of create, rotate and reveal alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl SecretBody {
    fn new(row: &SecretRow, secret: &Secret, now: Timestamp) -> Self {
        Self {
            id: row.id,
            endpoint: row.endpoint,
            kind: row.kind,
            fingerprint: secret.fingerprint(),
            public_key: secret.public_text(),
            live: row.is_live(now),
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            secret: None,
        }
    }

    fn with_text(row: &SecretRow, secret: &Secret, now: Timestamp) -> Json<Self> {
        Json(Self { secret: Some(secret.text().to_owned()), ..Self::new(row, secret, now) })
    }
}

/// A new secret: made here, or brought along.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSecretInput {
    /// `hmac` (the default) or `ed25519`.
    #[schema(value_type = Option<String>)]
    kind: Option<SecretKind>,
    /// A secret that receivers know already, `whsec_…` or `whsk_…`, instead of a new one.
    secret: Option<String>,
}

/// How to rotate.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateInput {
    /// How long the old secrets of this kind sign on, `24h` by default, at most `720h`.
    #[schema(value_type = Option<String>)]
    overlap: Option<duration::Text>,
    /// `hmac` (the default) or `ed25519`.
    #[schema(value_type = Option<String>)]
    kind: Option<SecretKind>,
}

type Told = ([(HeaderName, &'static str); 1], Json<SecretBody>);

/// List an endpoint's secrets, without their texts
///
/// Live ones alone, unless `all=true`.
#[utoipa::path(
    get, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets", tag = "secrets",
    operation_id = "list_secrets",
    params(("tenant" = String, Path), ("endpoint" = String, Path), ("all" = Option<bool>, Query)),
    responses((status = 200, body = Listing<SecretBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path((tenant, endpoint)): Path<(String, String)>,
    mut params: Params,
) -> Result<Json<Listing<SecretBody>>, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let all = params.flag("all");
    let page = params.page(&caller, "secrets", &[id.to_string(), all.to_string()])?;
    let now = api.manage.world.now();
    let mut tx = api.store.read().await?;
    if tx.find_tenant_endpoint(&tenant, id).await?.is_none() {
        return Err(ApiError::not_found("endpoint", &endpoint));
    }
    let mut paged = tx.list_secrets(&tenant, id, page).await?;
    paged.rows.retain(|row| all || row.is_live(now));
    let shown = try_listing(paged, |row| {
        Ok::<_, ManageError>(SecretBody::new(&row, &api.manage.open_secret(&row)?, now))
    });
    Ok(shown?)
}

/// Add a secret beside those that are live
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets", tag = "secrets",
    operation_id = "create_secret",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    request_body = Option<NewSecretInput>, responses((status = 201, body = SecretBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    MaybeBody(input): MaybeBody<NewSecretInput>,
) -> Result<(StatusCode, Told), ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let new = match (input.secret, input.kind) {
        (Some(_), Some(_)) => {
            let problem = Problem::new("kind", "the secret says its own kind; leave this out");
            return Err(ApiError::invalid(vec![problem]));
        }
        (Some(text), None) => NewSecret::Given(text),
        (None, kind) => NewSecret::Random(kind.unwrap_or(SecretKind::Hmac)),
    };
    let (row, secret) = api.manage.create_secret(&caller.actor, &tenant, id, new).await?;
    let body = SecretBody::with_text(&row, &secret, api.manage.world.now());
    Ok((StatusCode::CREATED, (NO_STORE, body)))
}

/// Make a new secret; the old ones of its kind sign on for a while
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/rotate", tag = "secrets",
    operation_id = "rotate_secret",
    params(("tenant" = String, Path), ("endpoint" = String, Path)),
    request_body = Option<RotateInput>, responses((status = 201, body = SecretBody))
)]
pub async fn rotate(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint)): Path<(String, String)>,
    MaybeBody(input): MaybeBody<RotateInput>,
) -> Result<(StatusCode, Told), ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let id: EndpointId = id("endpoint", &endpoint)?;
    let overlap: Duration = input.overlap.map_or(OVERLAP_DEFAULT, |text| text.0);
    let kind = input.kind.unwrap_or(SecretKind::Hmac);
    let rotated = api.manage.rotate_secret(&caller.actor, &tenant, id, kind, overlap).await?;
    let body = SecretBody::with_text(&rotated.0, &rotated.1, api.manage.world.now());
    Ok((StatusCode::CREATED, (NO_STORE, body)))
}

/// Revoke a secret at once
///
/// No request is signed with it five seconds later. The last live one cannot be revoked.
#[utoipa::path(
    delete, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/{secret}", tag = "secrets",
    operation_id = "revoke_secret",
    params(("tenant" = String, Path), ("endpoint" = String, Path), ("secret" = String, Path)),
    responses((status = 204))
)]
pub async fn revoke(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint, secret)): Path<(String, String, String)>,
) -> Result<StatusCode, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let endpoint: EndpointId = id("endpoint", &endpoint)?;
    let secret: SecretId = id("secret", &secret)?;
    api.manage.revoke_secret(&caller.actor, &tenant, endpoint, secret).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show a secret's text; that it was shown is kept in the audit
#[utoipa::path(
    post, path = "/v1/tenants/{tenant}/endpoints/{endpoint}/secrets/{secret}/reveal",
    tag = "secrets", operation_id = "reveal_secret",
    params(("tenant" = String, Path), ("endpoint" = String, Path), ("secret" = String, Path)),
    responses((status = 200, body = SecretBody))
)]
pub async fn reveal(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((tenant, endpoint, secret)): Path<(String, String, String)>,
    _: NoBody,
) -> Result<Told, ApiError> {
    let tenant = caller.tenant(&tenant)?;
    let endpoint: EndpointId = id("endpoint", &endpoint)?;
    let secret: SecretId = id("secret", &secret)?;
    let shown = api.manage.reveal_secret(&caller.actor, &tenant, endpoint, secret).await?;
    Ok((NO_STORE, SecretBody::with_text(&shown.0, &shown.1, api.manage.world.now())))
}
