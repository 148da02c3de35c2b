//! Many rows for a view of a SQLite file, whose trigger does the work, in one journey to the thread
//! that runs the statements: the transaction, the rows, and what they came to. A journey for each
//! statement would cost more than the statements.

use std::sync::OnceLock;

use sqlx::{AssertSqlSafe, Sqlite, query::QueryAs, sqlite::SqliteArguments};

use super::{Db, StoreError, Tx};
use crate::domain::id::EventId;

/// Rows of one statement. Each power of two up to it has its own text, and a group takes the next:
/// rows that are left over are NULL, and no trigger looks at them.
pub(super) const ROWS_MAX: usize = 256;

/// One text for each power of two, and the same without its transaction.
const TEXTS: usize = 2 * (ROWS_MAX.ilog2() as usize + 1);

/// A view that rows are put into. Its trigger leaves a finding of each row, if it is to be told of.
pub(super) struct View {
    /// `INSERT INTO` and its columns, of which the first is the row's number.
    head: &'static str,
    columns: usize,
    texts: [OnceLock<String>; TEXTS],
}

/// What became of a row: its number, the event if there is one, and what was found.
pub(super) type Found = (usize, EventId, i16);

pub(super) type Query<'q> = QueryAs<'q, Sqlite, (i64, EventId, i16), SqliteArguments>;

impl View {
    pub(super) const fn new(head: &'static str, columns: usize) -> Self {
        Self { head, columns, texts: [const { OnceLock::new() }; TEXTS] }
    }

    fn text(&'static self, rows: usize, alone: bool) -> &'static str {
        let size = rows.next_power_of_two();
        let place = 2 * size.ilog2() as usize + usize::from(alone);
        self.texts[place].get_or_init(|| {
            // Not numbered: SQLite would search a list for each number.
            let row = format!("({})", vec!["?"; self.columns].join(", "));
            let rows = vec![row; size].join(", ");
            let insert = format!(
                "{} VALUES {rows}; DELETE FROM snaphook_findings RETURNING n, event_id, finding",
                self.head
            );
            if alone { format!("BEGIN IMMEDIATE; {insert}; COMMIT") } else { insert }
        })
    }
}

impl Tx {
    /// Puts rows into a view, all or none, and gives what was found, in the order of the rows. It
    /// is a transaction of its own where none is open; then there may be [`ROWS_MAX`] rows at most.
    /// `bind` binds a row's columns behind its number.
    pub(super) async fn put_rows<T>(
        &mut self,
        view: &'static View,
        rows: &[T],
        bind: impl for<'q> Fn(Query<'q>, &'q T) -> Query<'q>,
    ) -> Result<Vec<Found>, StoreError> {
        let alone = !self.open;
        debug_assert!(!alone || rows.len() <= ROWS_MAX, "more would be two transactions");
        let mut found = Vec::with_capacity(rows.len());
        for (chunk, first) in rows.chunks(ROWS_MAX).zip((0..).step_by(ROWS_MAX)) {
            self.faults.step()?;
            let Db::Sqlite(connection) = &mut self.db else { unreachable!("asked by the caller") };
            self.open = true;
            let mut query = sqlx::query_as(AssertSqlSafe(view.text(chunk.len(), alone)));
            for (row, n) in chunk.iter().zip(0_i64..) {
                query = bind(query.bind(n), row);
            }
            match query.fetch_all(&mut **connection).await {
                Ok(some) => found.extend(some.into_iter().filter_map(|(n, event, finding)| {
                    Some((first + usize::try_from(n).ok()?, event, finding))
                })),
                Err(error) => {
                    if alone {
                        // Should it fail, the connection is closed.
                        let _ = self.end("ROLLBACK").await;
                    }
                    return Err(error.into());
                }
            }
            self.open = !alone;
        }
        self.faults.step()?;
        found.sort_unstable_by_key(|found| found.0);
        Ok(found)
    }
}
