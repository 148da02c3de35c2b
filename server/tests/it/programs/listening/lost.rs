//! Servers that are lost and sessions that end: nothing is lost that the server keeps.

use std::collections::BTreeMap;

use sqlx::{Connection as _, Executor as _, PgConnection};

use super::{add_source, emit, got, handler, interrupt, listen, listen_at, provide};
use crate::{
    programs::node::Node,
    support::{
        databases::{Kind, on_both},
        gate::Gate,
        receiver::Receiver,
    },
};

/// How often each event arrived.
fn arrivals(handler: &Receiver) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for request in handler.requests() {
        let id = request.headers["webhook-id"].to_str().unwrap().to_owned();
        *found.entry(id).or_default() += 1;
    }
    found
}

fn each_once(ids: &[String]) -> BTreeMap<String, usize> {
    ids.iter().map(|id| (id.clone(), 1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_falls_silent_or_goes_away_is_waited_for_and_nothing_is_skipped() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let gate = Gate::before(node.client.address.parse().unwrap()).await;
        let handler = handler().await;
        let url = handler.url("/");
        let arguments = ["--tenant", "acme", "--forward-to", &url];
        let (mut session, _) = listen_at(&node, &gate.address.to_string(), &arguments);
        let mut ids = vec![emit(&node, "acme", "a.b")];
        got(&handler, 1).await;

        for (turn, part) in
            [(Gate::silence as fn(&Gate), "no answer from"), (Gate::close, "cannot reach")]
        {
            turn(&gate);
            ids.extend([(); 5].map(|()| emit(&node, "acme", "a.b")));
            let told = session.wait_for("the server is lost, and waited for: ");
            assert!(told.contains(part), "{told}");
            gate.open();
            session.wait_for("the server is back");
            session.read_until(ids.last().unwrap());
        }

        let (ended, _) = interrupt(session);
        assert!(ended.err.contains("forwarded 11, accepted 11"), "{ended:?}");
        assert_eq!(arrivals(&handler), each_once(&ids));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_where_another_one_stopped_whatever_came_between() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let handler = handler().await;
        let url = handler.url("/");
        let arguments = ["--tenant", "acme", "--forward-to", &url];
        let from = |place: &str| listen(&node, &[&arguments[..], &["--after", place]].concat()).0;
        let mut ids = Vec::new();
        let mut place = {
            let (session, _) = listen(&node, &arguments);
            interrupt(session).1
        };
        for many in [3, 0, 2] {
            ids.extend((0..many).map(|_| emit(&node, "acme", "a.b")));
            // In the middle of a page: one event, and then the rest.
            if many > 0 {
                let once = [&arguments[..], &["--after", &place, "--once"]].concat();
                let ended = listen(&node, &once).0.end();
                assert_eq!(ended.code, 0, "{ended:?}");
                place = super::place(&ended);
                assert_eq!(handler.requests().len(), ids.len() - many + 1);
            }
            let mut session = from(&place);
            if many > 0 {
                // What is under way at the interrupt would come again.
                session.read_until(ids.last().unwrap());
            }
            place = interrupt(session).1;
            got(&handler, ids.len()).await;
        }
        assert_eq!(arrivals(&handler), each_once(&ids));
    })
    .await;
}

/// A handler answered well and did nothing; once it is mended, all of it is to run again.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_dropped_runs_again_by_its_time_and_not_twice() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let stripe = add_source(&node, "stripe");
        for n in 0..245 {
            let body = format!(r#"{{"id": "evt_{n}", "type": "charge.paid"}}"#);
            provide(&node, ("stripe", &stripe), &[], body.as_bytes());
        }
        let handler = handler().await;
        let url = handler.url("/");
        let arguments = ["--source", "stripe", "--forward-to", &url];

        let (mut session, _) = listen(&node, &[&arguments[..], &["--since", "1h"]].concat());
        let mut bodies: Vec<_> =
            got(&handler, 245).await.into_iter().map(|request| request.body).collect();
        for _ in 0..245 {
            session.read_until("\t204\t");
        }
        let (ended, place) = interrupt(session);

        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 245, "each once");
        assert!(ended.err.contains("forwarded 245, accepted 245"), "{ended:?}");
        let (mut session, _) = listen(&node, &[&arguments[..], &["--after", &place]].concat());
        provide(&node, ("stripe", &stripe), &[], br#"{"id": "evt_x", "type": "charge.new"}"#);
        assert!(session.read_until("charge.new").len() == 1, "and none of the others");
        interrupt(session);
        assert_eq!(handler.requests().len(), 246);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_takes_nothing_from_another() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let (first, second) = (handler().await, handler().await);
        let urls = [first.url("/"), second.url("/")];
        let start = |url: &str| listen(&node, &["--tenant", "acme", "--forward-to", url]).0;
        let (early, mut late) = (start(&urls[0]), start(&urls[1]));
        let mut ids: Vec<_> = (0..3).map(|_| emit(&node, "acme", "a.b")).collect();
        got(&first, 3).await;
        ids.push(emit(&node, "acme", "a.b"));
        interrupt(early);
        ids.extend((0..3).map(|_| emit(&node, "acme", "a.b")));

        late.read_until(&ids[6]);

        interrupt(late);
        assert_eq!(arrivals(&second), each_once(&ids), "none twice, none missing");
    })
    .await;
}

/// On PostgreSQL the feed stands still while an older transaction is open; SQLite has one writer.
#[tokio::test(flavor = "multi_thread")]
async fn what_commits_late_is_forwarded_and_what_was_there_before_is_not() {
    on_both(async |database| {
        let node = Node::start(database, "one", &[]).await;
        let handler = handler().await;
        let url = handler.url("/");
        let open = match database.kind {
            Kind::Postgres => {
                let mut open = PgConnection::connect(&database.url).await.unwrap();
                let emit = "BEGIN; SELECT snaphook.emit('acme', 'a.late', '{}')";
                open.execute(emit).await.unwrap();
                Some(open)
            }
            Kind::Sqlite => None,
        };
        emit(&node, "acme", "a.old");
        let (mut session, _) = listen(&node, &["--tenant", "acme", "--forward-to", &url]);
        let mut expected = vec!["a.new"];
        if let Some(mut open) = open {
            expected.insert(0, "a.late");
            open.execute("COMMIT").await.unwrap();
        }
        emit(&node, "acme", "a.new");

        let shown = session.read_until("a.new");

        interrupt(session);
        let types: Vec<_> = shown.iter().map(|line| line.split('\t').nth(3).unwrap()).collect();
        assert_eq!(types, expected);
    })
    .await;
}
