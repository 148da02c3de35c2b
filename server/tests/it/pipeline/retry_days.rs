//! Ladders to their end, in simulated time.

use std::time::Duration;

use snaphook::{
    domain::{endpoint::ScheduleText, time::Timestamp},
    engine::Owner,
    world::World,
};

use crate::support::{
    databases::on_both,
    simulated::{Simulated, at, engine, event, plant, run_dry},
};

/// Every ladder, when its attempts may come (without jitter), and when it gives up.
#[tokio::test]
async fn each_ladder_is_climbed_to_its_end_never_early() {
    on_both(async |database| {
        for (preset, pauses) in [
            ("standard", &[0, 5, 300, 1_800, 7_200, 18_000, 36_000, 36_000][..]),
            ("long", &[0, 5, 300, 1_800, 7_200, 18_000, 36_000, 36_000, 86_400, 86_400]),
            ("brisk", &[0, 30, 300, 1_800, 7_200, 28_800]),
        ] {
            let world = Simulated::new(|_, _| 500);
            let store = database.open().await;
            let engine = engine(store.clone(), world.clone());
            let mut settings = at(&format!("https://{preset}.example/"));
            settings.event_types = vec![preset.to_owned()];
            settings.retry_schedule = Some(ScheduleText::Preset(preset.to_owned()));
            plant(&store, &world, settings).await;
            let event = store.accept(event(preset, None)).await.unwrap().event;
            let start = event.created_at();

            run_dry(&engine, &mut Owner::new(engine.clone()), &world).await.unwrap();

            let times: Vec<i64> = world
                .requests()
                .iter()
                .map(|request| {
                    request.headers["webhook-timestamp"].to_str().unwrap().parse().unwrap()
                })
                .collect();
            assert_eq!(times.len(), pauses.len(), "{preset}");
            let (mut earliest, mut latest) = (start.seconds(), start.seconds() + 1);
            for (time, pause) in times.iter().zip(pauses) {
                earliest = (earliest + pause).min(*time);
                latest += pause + pause / 5 + 1;
                assert!(*time >= earliest && *time <= latest, "{preset}: {time} not in time");
                earliest = *time;
            }
            let total: i64 = pauses.iter().sum();
            assert!(times[times.len() - 1] - start.seconds() >= total, "{preset}: too early");
        }
    })
    .await;
}

/// Equal id and body, a fresh time and so a fresh signature, on each attempt.
#[tokio::test]
async fn a_retry_is_the_same_event_signed_anew() {
    on_both(async |database| {
        let world = Simulated::new(|_, count| if count < 4 { 503 } else { 200 });
        let store = database.open().await;
        let engine = engine(store.clone(), world.clone());
        plant(&store, &world, at("https://a.example/")).await;
        let accepted = store.accept(event("order.paid", None)).await.unwrap();

        run_dry(&engine, &mut Owner::new(engine.clone()), &world).await.unwrap();

        let requests = world.requests();
        assert_eq!(requests.len(), 4);
        let header = |n: usize, name: &str| requests[n].headers[name].to_str().unwrap().to_owned();
        for n in 0..4 {
            assert_eq!(header(n, "webhook-id"), accepted.event.to_string());
            assert_eq!(requests[n].body, requests[0].body);
        }
        for n in 1..4 {
            assert_ne!(header(n, "webhook-timestamp"), header(n - 1, "webhook-timestamp"));
            assert_ne!(header(n, "webhook-signature"), header(n - 1, "webhook-signature"));
        }
        assert!(world.now() > Timestamp(0) + Duration::from_secs(305));
    })
    .await;
}
