//! The doors in SQL, as other programs see them: plain connections, no code of ours between.

mod embed;
mod outbox;
mod parts;
mod postgres;
mod roles;
