//! The form of every list.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::store::page::Paged;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub struct Listing<T> {
    /// The items, in the order of the list.
    pub data: Vec<T>,
    /// The cursor of the next page; null at the end.
    pub next: Option<String>,
    /// The cursor of the page before; null at the beginning.
    pub previous: Option<String>,
}

impl<T> Listing<T> {
    /// A page of rows as the API shows them.
    pub fn of<R>(paged: Paged<R>, show: impl FnMut(R) -> T) -> Json<Self> {
        let Paged { rows, next, previous } = paged.map(show);
        Json(Self { data: rows, next, previous })
    }
}

/// As [`Listing::of`], where showing a row can fail.
pub fn try_listing<R, T, E>(
    paged: Paged<R>,
    show: impl FnMut(R) -> Result<T, E>,
) -> Result<Json<Listing<T>>, E> {
    let Paged { rows, next, previous } = paged;
    let data = rows.into_iter().map(show).collect::<Result<_, E>>()?;
    Ok(Json(Listing { data, next, previous }))
}
