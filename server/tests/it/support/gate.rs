//! A door in front of a server that the test opens and closes: to those behind it, the server is
//! away. Or nothing comes through any more and nobody is told, as after a sleep.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle, task::TaskTracker};

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const SILENT: u8 = 2;

/// Passes connections on while it is open.
pub struct Gate {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<AtomicU8>,
    cut: Arc<Mutex<CancellationToken>>,
    _task: AbortOnDropHandle<()>,
}

impl Gate {
    /// In front of the server at `to`, open.
    pub async fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(AtomicU8::new(OPEN));
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let (now, cuts) = (state.clone(), cut.clone());
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut inside, _) = listener.accept().await.unwrap();
                if now.load(Ordering::SeqCst) == CLOSED {
                    continue; // and so it is closed at once
                }
                let (now, cut) = (now.clone(), cuts.lock().unwrap().clone());
                connections.spawn(async move {
                    let Ok(mut outside) = TcpStream::connect(to).await else { return };
                    if now.load(Ordering::SeqCst) == OPEN {
                        let pass = copy_bidirectional(&mut inside, &mut outside);
                        cut.run_until_cancelled(pass).await;
                    }
                    if now.load(Ordering::SeqCst) == SILENT {
                        pending::<()>().await;
                    }
                });
            }
        }));
        Self { address, state, cut, _task: task }
    }

    /// Cuts all connections and lets nobody in.
    pub fn close(&self) {
        self.turn(CLOSED);
    }

    /// Lets nothing through, and leaves all connections open, for ever.
    pub fn silence(&self) {
        self.turn(SILENT);
    }

    /// Lets everybody in who comes from now on.
    pub fn open(&self) {
        self.state.store(OPEN, Ordering::SeqCst);
    }

    fn turn(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }
}
