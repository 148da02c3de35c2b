//! `/v1/sources/{source}/secrets`: what a provider signs with. It makes them; here they are added,
//! rotated and revoked. A text is given by reveal alone, and may not be stored on the way.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderName, StatusCode, header},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::{
    Api,
    auth::{Manager, Reader},
    error::ApiError,
    extract::{MaybeBody, NoBody, Params, id},
    listing::Listing,
};
use crate::{
    domain::{duration, id::SecretId, problem::Problem, source::SourceToken, time::Timestamp},
    manage::secrets::OVERLAP_DEFAULT,
    store::SourceSecretRow,
};

/// Keeps an answer out of every cache.
const NO_STORE: [(HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// A secret of a source.
#[derive(Serialize, ToSchema)]
#[schema(as = SourceSecret)]
pub struct SourceSecretBody {
    #[schema(value_type = String)]
    id: SecretId,
    #[schema(value_type = String)]
    source: SourceToken,
    /// Whether it verifies now.
    live: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// It verifies until then.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
    /// Its text: in the answer of reveal alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl SourceSecretBody {
    fn new(source: &SourceToken, row: &SourceSecretRow, now: Timestamp) -> Self {
        Self {
            id: row.id,
            source: source.clone(),
            live: row.is_live(now),
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            secret: None,
        }
    }
}

/// A secret, as the provider shows it.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSecretInput {
    /// Its text.
    #[schema(required)]
    secret: Option<String>,
}

/// The secret that the provider signs with from now on.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceRotateInput {
    /// Its text.
    #[schema(required)]
    secret: Option<String>,
    /// How long the old secrets verify on, `24h` by default, at most `720h`.
    #[schema(value_type = Option<String>)]
    overlap: Option<duration::Text>,
}

fn text_of(secret: Option<String>) -> Result<Zeroizing<String>, ApiError> {
    let missing = || {
        let problem = "it is missing; give the secret as the provider shows it";
        ApiError::invalid(vec![Problem::new("secret", problem)])
    };
    secret.map(Zeroizing::new).ok_or_else(missing)
}

/// List a source's secrets, without their texts
///
/// Live ones alone, unless `all=true`.
#[utoipa::path(
    get, path = "/v1/sources/{source}/secrets", tag = "sources",
    operation_id = "list_source_secrets",
    params(("source" = String, Path), ("all" = Option<bool>, Query)),
    responses((status = 200, body = Listing<SourceSecretBody>))
)]
pub async fn list(
    State(api): State<Arc<Api>>,
    Reader(caller): Reader,
    Path(source): Path<String>,
    mut params: Params,
) -> Result<Json<Listing<SourceSecretBody>>, ApiError> {
    let source = api.find_source(&caller, &source).await?;
    let all = params.flag("all");
    let page =
        params.page(&caller, "source secrets", &[source.token.to_string(), all.to_string()])?;
    let now = api.manage.world.now();
    let mut paged = api.store.read().await?.list_source_secrets(source.id, page).await?;
    paged.rows.retain(|row| all || row.is_live(now));
    Ok(Listing::of(paged, |row| SourceSecretBody::new(&source.token, &row, now)))
}

/// Add a secret beside those that are live
///
/// A request is genuine when any live secret proves it.
#[utoipa::path(
    post, path = "/v1/sources/{source}/secrets", tag = "sources",
    operation_id = "create_source_secret", params(("source" = String, Path)),
    request_body = SourceSecretInput, responses((status = 201, body = SourceSecretBody))
)]
pub async fn create(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    MaybeBody(input): MaybeBody<SourceSecretInput>,
) -> Result<(StatusCode, Json<SourceSecretBody>), ApiError> {
    let token = api.find_source(&caller, &source).await?.token;
    let text = text_of(input.secret)?;
    let row = api.manage.create_source_secret(&caller.actor, &token, text).await?;
    let body = SourceSecretBody::new(&token, &row, api.manage.world.now());
    Ok((StatusCode::CREATED, Json(body)))
}

/// Take the provider's new secret; the old ones verify on for a while
#[utoipa::path(
    post, path = "/v1/sources/{source}/secrets/rotate", tag = "sources",
    operation_id = "rotate_source_secret", params(("source" = String, Path)),
    request_body = SourceRotateInput, responses((status = 201, body = SourceSecretBody))
)]
pub async fn rotate(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path(source): Path<String>,
    MaybeBody(input): MaybeBody<SourceRotateInput>,
) -> Result<(StatusCode, Json<SourceSecretBody>), ApiError> {
    let token = api.find_source(&caller, &source).await?.token;
    let text = text_of(input.secret)?;
    let overlap: Duration = input.overlap.map_or(OVERLAP_DEFAULT, |text| text.0);
    let row = api.manage.rotate_source_secret(&caller.actor, &token, text, overlap).await?;
    let body = SourceSecretBody::new(&token, &row, api.manage.world.now());
    Ok((StatusCode::CREATED, Json(body)))
}

/// Revoke a secret at once
///
/// The last live one cannot be revoked.
#[utoipa::path(
    delete, path = "/v1/sources/{source}/secrets/{secret}", tag = "sources",
    operation_id = "revoke_source_secret",
    params(("source" = String, Path), ("secret" = String, Path)), responses((status = 204))
)]
pub async fn revoke(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((source, secret)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (token, secret) = (id("source", &source)?, id("secret", &secret)?);
    api.manage.revoke_source_secret(&caller.actor, &token, secret).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show a secret's text; that it was shown is kept in the audit
#[utoipa::path(
    post, path = "/v1/sources/{source}/secrets/{secret}/reveal", tag = "sources",
    operation_id = "reveal_source_secret",
    params(("source" = String, Path), ("secret" = String, Path)),
    responses((status = 200, body = SourceSecretBody))
)]
pub async fn reveal(
    State(api): State<Arc<Api>>,
    Manager(caller): Manager,
    Path((source, secret)): Path<(String, String)>,
    _: NoBody,
) -> Result<([(HeaderName, &'static str); 1], Json<SourceSecretBody>), ApiError> {
    let (token, secret) = (id("source", &source)?, id("secret", &secret)?);
    let (row, text) = api.manage.reveal_source_secret(&caller.actor, &token, secret).await?;
    let body = SourceSecretBody::new(&token, &row, api.manage.world.now());
    Ok((NO_STORE, Json(SourceSecretBody { secret: Some(text.to_string()), ..body })))
}
