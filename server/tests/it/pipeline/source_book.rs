//! The sources in memory: what the door finds by the id in a URL, as it is now.

use std::{collections::BTreeSet, time::Duration};

use snaphook::{
    domain::{
        id::{SecretId, SourceId},
        received::Finding,
        request_state::RequestState,
        source::{SchemeText, SourceState, SourceToken, Token},
        time::Timestamp,
    },
    engine::sources::LiveSource,
    store::{SourceRow, SourceSecretRow, Store, page::Page, seal::Place},
};
use snaphook_signature::{Handshake, Received};

use crate::{
    store::{
        NOW,
        received::{arrival, receive},
        requests::request,
        sources::{add_source, new_source},
    },
    support::{
        databases::{Kind, on_both},
        pipeline::Pipeline,
        simulated::{Reply::Status, keyring},
    },
};

/// Keeps a secret of a source, sealed.
async fn add_secret(store: &Store, row: &SourceRow, n: i64, text: &str, end: Option<Timestamp>) {
    let id = SecretId(n);
    let sealed = keyring().seal(text.as_bytes(), Place::of_source_secret(&row.tenant, id));
    let secret = SourceSecretRow {
        id,
        source: row.id,
        tenant: row.tenant.clone(),
        sealed,
        created_at: NOW,
        expires_at: end,
        revoked_at: None,
    };
    let mut tx = store.begin().await.unwrap();
    tx.add_source_secret(&secret).await.unwrap();
    tx.commit().await.unwrap();
}

/// Which of the secrets `a`, `b` and `c` sign requests that the source takes at `now`.
fn taken(source: &LiveSource, now: Timestamp) -> BTreeSet<&'static str> {
    let ready = source.ready.as_ref().unwrap();
    let Some(verifier) = ready.verifier(now) else { return BTreeSet::new() };
    let is_taken = |secret: &&str| {
        let settings = new_source("acme", "shop", 1).settings;
        let signer = settings.verifier(&[*secret]).unwrap();
        let signed = signer.sign(&Received::new(&[], b"{}"), "1", 0).unwrap();
        let headers: Vec<(&str, &[u8])> =
            signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        verifier.verify(&Received::new(&headers, b"{}"), 0).is_ok()
    };
    ["a", "b", "c"].into_iter().filter(is_taken).collect()
}

#[tokio::test]
async fn a_source_is_known_with_its_live_secrets_once_the_book_was_read() {
    on_both(async |database| {
        let p = Pipeline::new(database, |_, _| Status(200)).await;
        let mut row = add_source(&p.store, "acme", "shop", 1).await;
        let book = &p.engine.sources;
        assert!(!book.is_loaded());

        book.refresh().await.unwrap();
        assert!(book.is_loaded());
        let live = book.find(&row.token).unwrap();
        assert_eq!((live.id, &*live.name, &live.tenant), (row.id, "shop", &row.tenant));
        assert_eq!(taken(&live, NOW), BTreeSet::new(), "without a secret nothing is genuine");
        assert!(book.find(&SourceToken::new(7)).is_none());

        let [soon, later] = [9, 60].map(|seconds| NOW + Duration::from_secs(seconds));
        add_secret(&p.store, &row, 1, "a", Some(soon)).await;
        add_secret(&p.store, &row, 2, "b", None).await;
        add_secret(&p.store, &row, 3, "c", Some(later)).await;
        book.refresh().await.unwrap();
        let live = book.get(row.id).unwrap();
        for (now, expected) in
            [(NOW, vec!["a", "b", "c"]), (soon, vec!["b", "c"]), (later, vec!["b"])]
        {
            assert_eq!(taken(&live, now), expected.iter().copied().collect(), "{now}");
            assert_eq!(live.ready.as_ref().unwrap().secrets(now).count(), expected.len());
        }

        let mut tx = p.store.begin().await.unwrap();
        row = tx.find_source(None, &row.token).await.unwrap().unwrap();
        row.state = SourceState::Paused;
        row.settings.scheme = SchemeText::Named("meta".to_owned()); // signs as GitHub does
        row.settings.verify_token = Some(Token("hush".to_owned()));
        let private = serde_json::to_vec(&row.settings.take_private()).unwrap();
        row.sealed = Some(keyring().seal(&private, Place::of_source(&row.tenant, row.id)));
        assert!(tx.update_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        book.refresh().await.unwrap();
        let live = book.find(&row.token).unwrap();
        assert_eq!(live.state, SourceState::Paused);
        let ready = live.ready.as_ref().unwrap();
        let asked = Received::new(&[], b"")
            .with_method("GET")
            .with_url("/?hub.mode=subscribe&hub.challenge=7&hub.verify_token=hush");
        let answer = ready.handshakes(NOW).unwrap().unverified(&asked, false);
        assert!(matches!(answer, Some(Handshake::Answer(answer)) if answer.body == b"7"));
        assert_eq!(taken(&live, NOW).len(), 3, "what did not change is still there");

        let mut tx = p.store.begin().await.unwrap();
        row.deleted_at = Some(NOW);
        assert!(tx.update_source(&mut row).await.unwrap());
        tx.commit().await.unwrap();
        book.refresh().await.unwrap();
        assert!(book.find(&row.token).is_none() && book.get(row.id).is_none());
    })
    .await;
}

#[tokio::test]
async fn a_source_that_cannot_be_made_ready_says_so_and_spoils_no_other() {
    on_both(async |database| {
        let p = Pipeline::new(database, |_, _| Status(200)).await;
        let broken = add_source(&p.store, "acme", "broken", 1).await;
        let good = add_source(&p.store, "acme", "good", 2).await;
        add_secret(&p.store, &good, 1, "a", None).await;
        let place = Place { table: "elsewhere", tenant: "acme", row: 2 };
        let sealed = keyring().seal(b"a", place);
        let mut tx = p.store.begin().await.unwrap();
        let secret = SourceSecretRow {
            id: SecretId(2),
            source: broken.id,
            tenant: broken.tenant.clone(),
            sealed,
            created_at: NOW,
            expires_at: None,
            revoked_at: None,
        };
        tx.add_source_secret(&secret).await.unwrap();
        tx.commit().await.unwrap();

        add_source(&p.store, "acme", "newer", 3).await;
        let table = match database.kind {
            Kind::Postgres => "snaphook.sources",
            Kind::Sqlite => "snaphook_sources",
        };
        let newer = r#"{"name":"newer","scheme":"github","of_a_later_version":1}"#;
        let text = format!("UPDATE {table} SET settings = '{newer}' WHERE name = 'newer'");
        database.execute(&text).await;

        p.engine.sources.refresh().await.unwrap();

        assert!(p.engine.sources.find(&SourceToken::new(3)).is_none(), "it cannot be read");
        let problem = p.engine.sources.find(&broken.token).unwrap().ready.as_ref().err().cloned();
        assert!(problem.unwrap().contains("copied from another row"));
        assert!(p.engine.sources.find(&good.token).unwrap().ready.is_ok());
    })
    .await;
}

#[tokio::test]
async fn what_sources_saw_and_kept_is_forgotten_after_its_time_but_not_what_was_accepted() {
    on_both(async |database| {
        let p = Pipeline::new(database, |_, _| Status(200)).await;
        let again = async || receive(&p.store, arrival("evt_1", "", "{}")).await.finding;
        let kept = async || {
            let mut tx = p.store.read().await.unwrap();
            let rows = tx.list_requests(SourceId(1), None, Page::first(9)).await.unwrap().rows;
            rows.into_iter().map(|row| row.state).collect::<Vec<_>>()
        };
        let mut tx = p.store.begin().await.unwrap();
        for (n, state) in [(1, RequestState::Accepted), (2, RequestState::Rejected)] {
            assert!(tx.add_request(&request(n, state)).await.unwrap());
        }
        tx.commit().await.unwrap();
        assert_eq!(again().await, Finding::New);
        p.world.pass(Duration::from_hours(29 * 24));
        p.engine.prune().await.unwrap();
        assert_eq!(kept().await, [RequestState::Rejected, RequestState::Accepted], "29 days");

        p.world.pass(Duration::from_hours(400 * 24));
        p.engine.prune().await.unwrap();
        assert_eq!(kept().await, [RequestState::Accepted]);
        assert_eq!(again().await, Finding::New, "what was seen is forgotten");
    })
    .await;
}
