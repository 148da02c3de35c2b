//! Following a listing: its first page, asked for again and again.
//!
//! Simple on purpose: no stream to break, and it works through every proxy. What comes faster
//! than a page a second is not all shown, and the note says so.

use std::{collections::HashSet, time::Duration};

use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use url::Url;

use super::{
    client::Client,
    exit::Exit,
    note,
    output::{Column, Output},
};

/// Often enough to feel live; seldom enough to be no load.
const PAUSE: Duration = Duration::from_secs(1);

const PAGE: usize = 100;

/// Prints what is new in the listing at `url` until interrupted. `seen` names the state of an
/// item: one with a name that was not seen before is printed.
pub async fn follow(
    client: &Client,
    url: &Url,
    seen: impl Fn(&Value) -> Option<String>,
    columns: &[Column],
    output: &mut Output,
) -> anyhow::Result<Exit> {
    // Made once: one made for each pause would not hear what came between two of them.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut known: Option<HashSet<String>> = None;
    loop {
        let page = client.page(url, PAGE).await?;
        let mut names = HashSet::new();
        let mut fresh = Vec::new();
        for item in &page.data {
            let value: Value = serde_json::from_str(item.get())?;
            let Some(name) = seen(&value) else { continue };
            if known.as_ref().is_some_and(|known| !known.contains(&name)) {
                fresh.push(item);
            }
            names.insert(name);
        }
        if fresh.len() == PAGE {
            note("more than a page came at once; some of it is not shown");
        }
        // Listings are newest first; a tail reads downward.
        for item in fresh.into_iter().rev() {
            output.follow(columns, item)?;
        }
        known = Some(names);
        if !pause(PAUSE, &mut interrupts).await {
            return Ok(Exit::Done);
        }
    }
}

/// Waits; `false` when interrupted.
async fn pause(time: Duration, interrupts: &mut Signal) -> bool {
    tokio::select! {
        _ = interrupts.recv() => false,
        () = super::wait::wait(time) => true,
    }
}
