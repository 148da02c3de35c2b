//! A door in front of a server that the test opens and closes: to those behind it, the server is
//! away.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle, task::TaskTracker};

/// Passes connections on while it is open.
pub struct Gate {
    /// Where it listens.
    pub address: SocketAddr,
    open: Arc<AtomicBool>,
    cut: Arc<Mutex<CancellationToken>>,
    _task: AbortOnDropHandle<()>,
}

impl Gate {
    /// In front of the server at `to`, open.
    pub async fn before(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(AtomicBool::new(true));
        let cut = Arc::new(Mutex::new(CancellationToken::new()));
        let (passes, cuts) = (open.clone(), cut.clone());
        let task = AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut inside, _) = listener.accept().await.unwrap();
                if !passes.load(Ordering::SeqCst) {
                    continue; // and so it is closed at once
                }
                let cut = cuts.lock().unwrap().clone();
                connections.spawn(async move {
                    let Ok(mut outside) = TcpStream::connect(to).await else { return };
                    let pass = copy_bidirectional(&mut inside, &mut outside);
                    cut.run_until_cancelled(pass).await;
                });
            }
        }));
        Self { address, open, cut, _task: task }
    }

    /// Cuts all connections and lets nobody in.
    pub fn close(&self) {
        self.open.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.cut.lock().unwrap()).cancel();
    }

    /// Lets everybody in.
    pub fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}
