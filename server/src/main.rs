//! The binary `snaphook`.

fn main() {}
