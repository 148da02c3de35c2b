//! A rate that an endpoint sets is kept, over retries and restarts, and holds nobody else up.

use std::time::Duration;

use serde_json::json;

use crate::support::{databases::on_both, pipeline::Pipeline, simulated::Reply::Status};

#[tokio::test]
async fn a_rate_is_kept_by_one_endpoint_while_another_gets_all_at_once() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        let paced = p.plant_with("paced", |endpoint| {
            endpoint.rate_limit = Some("2/s".parse().unwrap());
        });
        let paced = paced.await;
        p.plant("free").await;
        for _ in 0..12 {
            p.emit("order.paid").await;
        }
        p.pass(Duration::ZERO).await;
        assert_eq!((p.requests("paced"), p.requests("free")), (1, 12));
        let start = p.now();
        for tenth in 1..=30 {
            p.pass(Duration::from_millis(100)).await;
            assert_eq!(p.requests("paced"), 1 + tenth / 5, "after {tenth} tenths of a second");
        }
        assert_eq!(p.now().since(start), Duration::from_secs(3));

        p.change(paced, json!({ "rate_limit": null })).await;
        p.pass(Duration::ZERO).await;
        assert_eq!(p.requests("paced"), 12, "without a limit the rest goes at once");
    })
    .await;
}
