//! The program as it runs in production: processes that start, are killed and come back, on a
//! database that outlives them, with real receivers at the other end.

mod every_door;
mod killed;
mod logs;
mod node;
mod schema;
mod troubled_database;
mod two_nodes;
