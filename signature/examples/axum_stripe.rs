//! A receiver for Stripe in axum: verifies, deduplicates in its own transaction, answers.
//!
//! ```sh
//! STRIPE_SECRET=whsec_… cargo run --example axum_stripe --features axum,sqlite
//! ```

use axum::{Router, extract::State, http::StatusCode, routing::post};
use serde_json::Value;
use snaphook_signature::{Dedup, Scheme, VerifiedEvent, Verifier, Webhooks};
use sqlx::SqlitePool;

#[derive(Clone, axum::extract::FromRef)]
struct App {
    webhooks: Webhooks,
    pool: SqlitePool,
}

async fn hook(
    State(pool): State<SqlitePool>,
    event: VerifiedEvent,
) -> Result<StatusCode, StatusCode> {
    // An error answers 503, and Stripe comes again; the transaction is then as if it had not been.
    let busy = |_| StatusCode::SERVICE_UNAVAILABLE;
    let Some(key) = event.dedup_key() else { return Err(StatusCode::BAD_REQUEST) };
    let mut transaction = pool.begin().await.map_err(busy)?;
    if Dedup::of("stripe").is_new(&mut *transaction, &key).await.map_err(busy)? {
        let charge: Value = event.json().map_err(|_| StatusCode::BAD_REQUEST)?;
        let charge = sqlx::query("INSERT INTO charges (amount) VALUES ($1)")
            .bind(charge["data"]["object"]["amount"].as_i64());
        charge.execute(&mut *transaction).await.map_err(busy)?;
    }
    transaction.commit().await.map_err(busy)?;
    Ok(StatusCode::OK)
}

#[tokio::main]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1); // an address and a database, for those who want others
    let address = args.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let pool =
        SqlitePool::connect(&args.next().unwrap_or_else(|| "sqlite:shop.db?mode=rwc".to_owned()))
            .await?;
    Dedup::create_table(&mut *pool.acquire().await?).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS charges (amount INTEGER)").execute(&pool).await?;
    let secret = std::env::var("STRIPE_SECRET")?;
    let webhooks = Webhooks::new(Verifier::new(Scheme::named("stripe")?, &[secret], None)?);
    let app = Router::new().route("/", post(hook)).with_state(App { webhooks, pool });
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
