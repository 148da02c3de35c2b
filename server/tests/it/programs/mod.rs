//! The program as it runs in production: processes that start, are killed and come back, on a
//! database that outlives them, with real receivers at the other end.

mod backlog;
mod doors;
mod doors_agree;
mod every_door;
mod handshakes;
mod killed;
mod listening;
mod logs;
mod lost_node;
mod node;
mod pooled;
mod received_killed;
mod restarted_postgres;
mod same_name;
mod schema;
mod troubled_database;
mod troubled_machine;
mod troubled_postgres;
mod two_doors;
mod two_nodes;
