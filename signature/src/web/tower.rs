//! A layer for tower: what is behind it gets genuine requests alone, with the raw body as it was
//! received and the [`VerifiedEvent`] among the request's extensions.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

use super::{VerifiedEvent, Webhooks};

/// Verifies requests on their way in.
///
/// ```
/// use axum::{Extension, Router, http::StatusCode, routing::post};
/// use snaphook_signature::{Scheme, VerifiedEvent, Verifier, WebhookLayer, Webhooks};
///
/// async fn hook(Extension(event): Extension<VerifiedEvent>, body: String) -> StatusCode {
///     assert_eq!(event.body, body);
///     StatusCode::NO_CONTENT
/// }
///
/// let verifier = Verifier::new(Scheme::named("stripe")?, &["whsec_s3cret"], None)?;
/// let app: Router = Router::new()
///     .route("/hook", post(hook))
///     .layer(WebhookLayer::new(Webhooks::new(verifier)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WebhookLayer {
    webhooks: Webhooks,
}

impl WebhookLayer {
    /// For the requests of one sender.
    pub fn new(webhooks: Webhooks) -> Self {
        Self { webhooks }
    }
}

impl<S> Layer<S> for WebhookLayer {
    type Service = VerifyWebhook<S>;

    fn layer(&self, inner: S) -> VerifyWebhook<S> {
        VerifyWebhook { inner, webhooks: self.webhooks.clone() }
    }
}

/// What [`WebhookLayer`] puts in front of a service.
#[derive(Clone, Debug)]
pub struct VerifyWebhook<S> {
    inner: S,
    webhooks: Webhooks,
}

impl<S, B, R> Service<Request<B>> for VerifyWebhook<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was asked whether it is ready is the one that is called.
        let other = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, other);
        let webhooks = self.webhooks.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let again = copy(&parts);
            match webhooks.receive(Request::from_parts(parts, body)).await {
                Ok(event) => inner.call(with_event(again, event)).await,
                Err(rejection) => {
                    let mut response = Response::new(R::default());
                    *response.status_mut() = rejection.status();
                    Ok(response)
                }
            }
        })
    }
}

/// Everything of a request but its headers and body, which come with the event.
fn copy(parts: &http::request::Parts) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.version_mut() = parts.version;
    *request.extensions_mut() = parts.extensions.clone();
    request
}

fn with_event(request: Request<()>, event: VerifiedEvent) -> Request<Full<Bytes>> {
    let mut request = request.map(|()| Full::new(event.body.clone()));
    *request.headers_mut() = event.headers.clone();
    request.extensions_mut().insert(event);
    request
}
