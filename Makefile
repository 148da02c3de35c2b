# The only entrance. `make` alone tells what there is; CONTRIBUTING.md tells when to use what.

.DEFAULT_GOAL := help
.PHONY: help dev test lint bench fuzz

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

dev:  ## build and run a server with a sample tenant, endpoint and event
	cargo run --locked --package snaphook --bin snaphook -- dev

test:  ## everything, on SQLite and on PostgreSQL; installs what is missing when run as root
	scripts/install
	scripts/with-postgres scripts/test

lint:  ## format, clippy, the house rules; licenses and sources where cargo-deny is installed
	scripts/lint

bench:  ## measure emit and delivery beside their ceilings, into target/bench.json
	scripts/with-postgres cargo run --locked --release --package snaphook --bin snaphook -- bench

fuzz:  ## run every property test long; FUZZ_CASES sets how long
	PROPTEST_CASES=$${FUZZ_CASES:-100000} cargo test --locked --workspace --lib
