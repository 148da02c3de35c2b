# The only entrance. `make` alone tells what there is; CONTRIBUTING.md tells when to use what.

.DEFAULT_GOAL := help
.PHONY: help dev test soak lint bench fuzz

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

dev:  ## build and run a server with a sample tenant, endpoint and event
	cargo run --locked --package snaphook --bin snaphook -- dev

test:  ## everything, on SQLite and on PostgreSQL; installs what is missing when run as root
	scripts/install
	scripts/with-postgres scripts/test

soak:  ## what is too long for make test: kills, lost nodes, a million rows, many worlds; WORLDS is how many
	scripts/install
	scripts/with-postgres scripts/soak

lint:  ## format, clippy, the house rules; licenses and sources where cargo-deny is installed
	scripts/lint

bench: export POSTGRES_SETTINGS = shared_buffers=512MB; max_wal_size=4GB; autovacuum_naptime=1min
bench:  ## measure rates beside their ceilings, latency and memory, into target/bench.json; BENCH adds flags
	cargo build --locked --release --package snaphook --bin snaphook
	scripts/with-postgres target/release/snaphook bench $(BENCH)

fuzz:  ## fuzz each parser of foreign bytes, FUZZ_SECONDS each; then every property test, FUZZ_CASES each
	scripts/fuzz
	PROPTEST_CASES=$${FUZZ_CASES:-100000} cargo test --locked --workspace --lib
