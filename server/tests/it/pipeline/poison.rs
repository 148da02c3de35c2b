//! A defect in one attempt is that attempt's failure: it is recorded, and everything else goes on.

use std::time::Duration;

use snaphook::{
    domain::attempt::Mark,
    engine::{Job, Owner},
    store::Completion,
};

use crate::support::{
    databases::{Database, Kind, on_both},
    pipeline::Pipeline,
    simulated::Reply::{Panics, Status},
};

#[tokio::test]
async fn a_panic_while_sending_is_a_failed_attempt() {
    on_both(async |database| {
        let mut p = Pipeline::new(database, |url, count| {
            if url.contains("bad") && count == 1 { Panics } else { Status(200) }
        })
        .await;
        let (bad, good) = (p.plant("bad").await, p.plant("good").await);
        let event = p.emit("order.paid").await;

        assert_eq!(p.turn().await, 2);
        assert_eq!(p.history(event, bad).await, [(Mark::Retry, "internal".to_owned())]);
        assert_eq!(p.standing(event, good).await, "delivered");
        p.run_dry().await;
        assert_eq!(p.standing(event, bad).await, "delivered", "by its ladder, like any failure");
    })
    .await;
}

/// An attempt looks at the clock as it prepares, and as it classifies.
#[tokio::test]
async fn a_panic_before_or_after_the_request_is_a_failed_attempt() {
    on_both(async |database| {
        for (look, requests, why) in [(0, 0, "preparing"), (1, 1, "classifying")] {
            let mut p = Pipeline::new(database, |_, _| Status(200)).await;
            let name = format!("{why}-{look}");
            let types = vec![why.to_owned()];
            let endpoint = p.plant_with(&name, |settings| settings.event_types = types).await;
            let event = p.emit(why).await;
            p.owner.refresh().await.unwrap();
            p.owner.fetch().await.unwrap();
            let job = p.owner.take(1).await.unwrap().remove(0);

            p.world.panic_at_looks([look]);
            let done = p.engine.attempt(&job).await;
            let finished = std::slice::from_ref(&done.finished);
            let completion = p.engine.complete(finished).await.unwrap();
            p.owner.finish(std::slice::from_ref(&done), &completion);

            let internal = [(Mark::Retry, "internal".to_owned())];
            assert_eq!(p.history(event, endpoint).await, internal, "{why}");
            assert_eq!(p.requests(&name), requests, "{why}");
            p.run_dry().await;
            assert_eq!(p.standing(event, endpoint).await, "delivered", "{why}");
        }
    })
    .await;
}

/// Three endpoints, `a`, `b` and `c`, an event for all, and the results of its attempts.
struct Batch {
    p: Pipeline,
    jobs: Vec<Job>,
}

impl Batch {
    async fn new(database: &Database) -> Self {
        let mut p = Pipeline::new(database, |_, _| Status(200)).await;
        for name in ["a", "b", "c"] {
            p.plant(name).await;
        }
        p.emit("order.paid").await;
        p.owner.refresh().await.unwrap();
        p.owner.fetch().await.unwrap();
        let jobs = p.owner.take(9).await.unwrap();
        assert_eq!(jobs.len(), 3);
        Self { p, jobs }
    }

    /// Attempts all and writes the results, with panics at these looks at the clock.
    async fn complete(&mut self, panics: &[u64]) -> Completion {
        let mut done = Vec::new();
        for job in &self.jobs {
            done.push(self.p.engine.attempt(job).await);
        }
        let finished: Vec<_> = done.iter().map(|done| done.finished.clone()).collect();
        self.p.world.panic_at_looks(panics.iter().copied());
        let completion = self.p.engine.complete_surely(&finished).await;
        self.p.world.panic_at_looks([]);
        self.p.owner.finish(&done, &completion);
        completion
    }

    async fn standings(&self) -> Vec<String> {
        let mut standings = Vec::new();
        for job in &self.jobs {
            standings.push(self.p.standing(job.row.event_id, job.row.endpoint_id).await);
        }
        standings
    }
}

/// Looks: the batch; then each alone, and the second of them once more, without what the
/// receiver said.
#[tokio::test]
async fn a_panic_while_recording_harms_one_delivery_and_no_other() {
    on_both(async |database| {
        let mut batch = Batch::new(database).await;

        let completion = batch.complete(&[0, 2, 3]).await;

        assert_eq!(completion.unwritten.len(), 1);
        assert_eq!(batch.standings().await, ["delivered", "pending", "delivered"]);
        let p = &mut batch.p;
        assert_eq!(p.pass(Duration::from_hours(2)).await, 0, "it is not sent again and again");
        p.emit("order.paid").await;
        assert_eq!(p.turn().await, 3, "its endpoint gets other events");
        p.owner = Owner::new(p.engine.clone()); // a restart
        p.run_dry().await;
        assert_eq!(batch.standings().await, ["delivered"; 3], "once more, by the next owner");
    })
    .await;
}

#[tokio::test]
async fn what_the_database_refuses_is_recorded_without_what_it_refuses() {
    on_both(async |database| {
        let mut batch = Batch::new(database).await;
        let poison = batch.jobs[1].row.endpoint_id.0;
        database
            .execute(&match database.kind {
                Kind::Sqlite => format!(
                    "CREATE TRIGGER poison BEFORE INSERT ON snaphook_attempts
                     WHEN NEW.endpoint_id = {poison} AND NEW.response IS NOT NULL
                     BEGIN SELECT RAISE(ABORT, 'poison'); END"
                ),
                Kind::Postgres => format!(
                    "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql
                     AS $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
                     CREATE TRIGGER poison BEFORE INSERT ON snaphook.attempts FOR EACH ROW
                     WHEN (NEW.endpoint_id = {poison} AND NEW.response IS NOT NULL)
                     EXECUTE FUNCTION poison()"
                ),
            })
            .await;

        let completion = batch.complete(&[]).await;

        assert!(completion.unwritten.is_empty());
        assert_eq!(batch.standings().await, ["delivered"; 3]);
        for (job, expected) in batch.jobs.iter().zip([true, false, true]) {
            let attempts = batch.p.attempts(job.row.event_id, job.row.endpoint_id).await;
            assert_eq!(attempts[0].response.is_some(), expected);
        }
    })
    .await;
}
