//! An extractor for axum: a handler that takes a [`VerifiedEvent`] runs for genuine requests alone.

use axum_core::{
    extract::{FromRef, FromRequest, Request},
    response::{IntoResponse, Response},
};

use super::{Rejection, VerifiedEvent, Webhooks};

/// Takes the whole request: the raw body, before anything parses it.
///
/// ```
/// use axum::{Router, http::StatusCode, routing::post};
/// use snaphook_signature::{Scheme, VerifiedEvent, Verifier, Webhooks};
///
/// async fn hook(event: VerifiedEvent) -> StatusCode {
///     println!("{:?} {} bytes", event.verified.event_type, event.body.len());
///     StatusCode::NO_CONTENT
/// }
///
/// let verifier = Verifier::new(Scheme::named("github")?, &["s3cret"], None)?;
/// let app: Router = Router::new().route("/hook", post(hook)).with_state(Webhooks::new(verifier));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<S> FromRequest<S> for VerifiedEvent
where
    S: Send + Sync,
    Webhooks: FromRef<S>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, Rejection> {
        Webhooks::from_ref(state).receive(request).await
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        self.status().into_response()
    }
}
