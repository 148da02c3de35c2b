//! A new master key: everything that an older one sealed is opened and sealed again, row by row,
//! while the server runs.

use super::{Manage, ManageError};
use crate::store::reseal::SealedIn;

/// What a walk over all sealed values came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Values sealed with the current key by now, those of before included.
    pub values: u64,
    /// Of these, the ones that an older key had sealed.
    pub changed: u64,
}

impl Manage {
    /// Seals everything with the current master key. It may be stopped and begun again.
    pub async fn reseal(&self) -> Result<Resealed, ManageError> {
        let mut done = Resealed::default();
        for table in SealedIn::ALL {
            let mut after = 0;
            loop {
                let mut tx = self.store.begin().await?;
                let rows = tx.list_sealed(table, after).await?;
                let Some(last) = rows.last() else { break };
                after = last.id;
                for row in &rows {
                    done.values += 1;
                    if let Some(sealed) = self.keyring.reseal(&row.sealed, row.place())? {
                        done.changed += u64::from(tx.update_sealed(row, &sealed).await?);
                    }
                }
                tx.commit().await?;
            }
        }
        Ok(done)
    }
}
