# Three commands matter: `make demo`, `make check` while you work, and `make test` before you land. Those for the demo and the
# tests install by package name what this machine lacks.

MEDIA ?=
LISTEN ?=
CARGO ?= cargo
SEED ?= 1
SEEDS ?= 10000
BENCH ?= peers

.DEFAULT_GOAL := help
.PHONY: help demo check test nightly bench sim sim-nightly fmt lint web fuzz-smoke setup

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: ## a server with a few short films; MEDIA=dir uses the films in dir, LISTEN=addr:port another address
	scripts/setup demo
	scripts/web build
	$(CARGO) build --release --locked --package reel
	scripts/strip target/release/reel
	target/release/reel demo $(if $(MEDIA),--media "$(MEDIA)") $(if $(LISTEN),--listen "$(LISTEN)")

check: ## what a change needs: format, clippy, tests of the changed crates and of their users; ALL=1 all crates, BASE=commit
	scripts/web build
	$(CARGO) xtask check $(if $(ALL),--all) $(if $(BASE),--base $(BASE))

test: ## everything that a change may break: format, lint, tidy checks, the pages, the tests of the day; BUSY=1 beside other work
	scripts/test

nightly: ## what `make test` leaves to the night, in parts of at most 25 minutes; PART=1 to 6, or all without it
	scripts/nightly $(PART)

bench: ## one experiment, Reel beside its rivals; BENCH=all, peers, classes, priority, degraded or capacity
	scripts/setup bench
	scripts/web build
	$(CARGO) build --release --locked --package reel --package reel-bench --package reel-load
	scripts/strip target/release/reel
	target/release/reel bench $(BENCH)

sim: ## the server on simulated disks, clients and time, for an hour; SEED=number
	$(CARGO) run --release --locked --package reel-sim -- --seed $(SEED)

sim-nightly: ## 10,000 seeds with random faults, a simulated hour each; SEED=number for the first, SEEDS=number for fewer
	$(CARGO) run --release --locked --package reel-sim -- --seed $(SEED) --seeds $(SEEDS)

fmt: ## format the sources
	$(CARGO) fmt --all

lint: ## formatting, clippy, the rules of the repository, licences
	scripts/lint

web: ## build the pages
	scripts/web build

fuzz-smoke: ## every fuzz target for a few seconds; SECONDS_EACH=60 for longer
	scripts/fuzz-smoke $(SECONDS_EACH)

setup: ## install what the tests need
	scripts/setup test
