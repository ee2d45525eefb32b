.DEFAULT_GOAL := help

# Uses nextest if it is installed, which runs the tests of all crates in parallel. Plain cargo runs the same tests, slower.
TEST_RUNNER := $(shell cargo nextest --version >/dev/null 2>&1 && echo "nextest run" || echo "test")

# Which tests are the stories of the Rust client, which need clients/testing/world.py.
STORIES := $(if $(findstring nextest,$(TEST_RUNNER)),--run-ignored only -E 'binary(stories)',--test stories -- --ignored)

# The directory of build output.
BUILT := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 17

# A development build: a first visitor has it in less than half the time of a release build, and `make test` reuses it.
# `--bin` and not `--package`: cargo then gives dependencies the features that they have in `make test`.
.PHONY: run
run: ## Build (for development) and run the service on SQLite at http://127.0.0.1:8080
	cargo run --bin auspex -- serve

.PHONY: demo
demo: ## Play a small marketplace story on a temporary database, and show the answers
	cargo run --quiet --bin auspex -- demo

.PHONY: test
test: ## Run every test, on SQLite and on a throw-away PostgreSQL
	scripts/test-peers
	scripts/with-postgres cargo $(TEST_RUNNER) --workspace

.PHONY: clients
clients: ## Generate the records and operations of the Python and TypeScript clients from docs/openapi.json
	python3 -B clients/generator

.PHONY: clients-check
clients-check: ## Check that the generated parts of the clients are up to date
	python3 -B clients/generator --check

# The Rust client's stories are compiled like all tests, so that what `make test` has built is used.
.PHONY: test-clients
test-clients: ## Test all clients against a running service: lint, types, stories, the code of their READMEs, packages
	cargo build --quiet --bin auspex
	scripts/test-clients $(BUILT)/debug/auspex
	python3 -B clients/testing/world.py $(BUILT)/debug/auspex cargo $(TEST_RUNNER) --workspace $(STORIES)

# `npm install` and not `npm ci`, which refuses a lock file without the builds of other platforms. Checks that console/dist is what the sources build to, and drives the real binary in Chromium.
.PHONY: test-console
test-console: ## Build the console again, compare it with console/dist, and tell its stories in a browser
	cargo build --quiet --bin auspex
	scripts/chromium
	scripts/test-peers
	cd console && npm install --no-audit --no-fund && npm run check && npm run compare && npm run size && npm test

.PHONY: pictures
pictures: ## Take the pictures of the console in docs/pictures again
	cargo build --quiet --bin auspex
	scripts/chromium
	cd console && npm install --no-audit --no-fund && npm run pictures

.PHONY: contract
contract: ## Test the service against its OpenAPI document with Schemathesis
	scripts/contract

.PHONY: lint
lint: ## Check formatting, lints, and the licences and sources of dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings
	python3 -B tests/scripts/check_dependencies_test.py --quiet
	scripts/check-dependencies

.PHONY: fuzz
fuzz: ## Fuzz what parses foreign bytes: a million cases each, at most five minutes; needs a nightly compiler
	scripts/fuzz

.PHONY: bench
bench: ## Measure the figures in the documentation, as ratios within one run
	cargo build --release --quiet --package auspex-server --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench $(BUILT)/release/auspex

.PHONY: bench-replay
bench-replay: ## Measure the replay of a rule over a million analyses on both databases
	cargo build --release --quiet --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench replay 1000000

.PHONY: bench-exports
bench-exports: ## Measure exports of a million events on both databases, and the memory that they take
	cargo build --release --quiet --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench exports 1000000

.PHONY: bench-reads
bench-reads: ## Measure reads among a million objects on both databases; seeding takes a few minutes
	cargo build --release --quiet --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench reads 1000000

.PHONY: bench-console
bench-console: ## Measure the console in a browser with a million objects behind it; seeding takes a few minutes
	cargo build --release --quiet --package auspex-server --package auspex-bench
	scripts/chromium
	cd console && npm install --no-audit --no-fund && node scripts/million.mjs $(abspath $(BUILT))/release/auspex $(abspath $(BUILT))/release/auspex-bench

.PHONY: simulate
simulate: ## Simulate 1,000 nodes and 1,000,000 tenants (SEED=… draws another load), and print what must change from which size on
	cargo build --release --quiet --package auspex-bench
	$(BUILT)/release/auspex-bench simulate $(SEED)

# A development build: bytes do not depend on it.
.PHONY: costs
costs: ## Measure what an event, an analysis and a delivery write and keep on both databases
	cargo build --quiet --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/debug/auspex-bench costs

.PHONY: eval
eval: ## Evaluate the embedded model on held-out histories (and public data sets in AUSPEX_EVAL_DATA): quality, parity, cost; then eval-moderation
	mkdir -p target/eval
	python3 training/evaluate.py questions target/eval/questions.jsonl $(AUSPEX_EVAL_DATA)
	cargo run --release --quiet --package auspex-analyzer --example answer -- target/eval/questions.jsonl > target/eval/answers.jsonl
	python3 training/evaluate.py judge target/eval/answers.jsonl
	python3 training/evaluate.py escalation target/eval/answers.jsonl
	cargo run --release --quiet --package auspex-decider --example eval
	$(MAKE) --no-print-directory eval-moderation

# A run that was broken off goes on where it was: answers are kept in target/eval.
.PHONY: eval-moderation
eval-moderation: ## Judge the built-in moderation questions on written cases (and public data sets in AUSPEX_EVAL_DATA)
	cargo build --release --quiet --package auspex-server
	mkdir -p target/eval
	python3 training/moderation.py $(BUILT)/release/auspex "$(AUSPEX_EVAL_DATA)" target/eval/moderation.jsonl

.PHONY: eval-weaknesses
eval-weaknesses: ## Judge the embedded model on held-out generated cases: numbers, scales, long histories, senders and others
	mkdir -p target/eval
	python3 training/generate.py questions target/eval/weaknesses.jsonl
	cargo run --release --quiet --package auspex-analyzer --example answer -- target/eval/weaknesses.jsonl > target/eval/weaknesses-answers.jsonl
	python3 training/generate.py judge target/eval/weaknesses-answers.jsonl

# A development build, like the tests. `SEED=…` repeats a schedule, `SECONDS=7200` goes on for longer; other options:
# `make faults OPTIONS="--only postgres --without clock"`.
.PHONY: faults
faults: ## Run three processes on PostgreSQL and one on SQLite under faults for four minutes, and check that nothing is lost
	cargo build --quiet --bin auspex --bin auspex-faults
	scripts/with-postgres --durable $(BUILT)/debug/auspex-faults $(BUILT)/debug/auspex \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(OPTIONS)

# Not in CI: it takes ten minutes or more. `SEED=…` repeats what is drawn; `OPTIONS="--failovers 40"` goes on for longer.
.PHONY: failover
failover: ## Let the primary of a Patroni cluster fall ten times under three processes with load, and check that nothing is lost
	scripts/server-parts patroni:patroni etcd:etcd-server haproxy:haproxy
	scripts/with-postgres true
	cargo build --quiet --bin auspex --bin auspex-faults
	$(BUILT)/debug/auspex-faults $(BUILT)/debug/auspex --only cluster $(if $(SEED),--seed $(SEED)) $(OPTIONS)

.PHONY: poolers
poolers: ## Run three processes behind PgBouncer under faults for two minutes, and check that one in transaction mode is refused
	scripts/server-parts pgbouncer:pgbouncer
	cargo build --quiet --bin auspex --bin auspex-faults
	scripts/with-postgres --durable $(BUILT)/debug/auspex-faults $(BUILT)/debug/auspex --only pooler \
		--seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED)) $(OPTIONS)

# Not in CI: the older binary is built from cold, which takes ten minutes and more, and the run takes five to ten. By default it is
# that of the commit before the newest one that changed the schema; `FROM=…` names another. Its sources are a worktree below target,
# with build output of their own. `SEED=…` repeats what is drawn.
FROM ?= $(shell git log -1 --format=%H -- crates/store/migrations)~1
UPGRADE := $(abspath $(BUILT))/upgrade
.PHONY: upgrade
upgrade: ## Replace three processes of an older binary (FROM=commit) by this one under load, and back, and check that nothing is lost
	git worktree prune
	test -e $(UPGRADE)/source || git worktree add --quiet --detach $(UPGRADE)/source $(FROM)
	git -C $(UPGRADE)/source checkout --quiet --detach $$(git rev-parse $(FROM))
	cd $(UPGRADE)/source && CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$(UPGRADE)/build cargo build --quiet --bin auspex
	cargo build --quiet --bin auspex --bin auspex-faults
	scripts/with-postgres --durable $(BUILT)/debug/auspex-faults $(BUILT)/debug/auspex --only upgrade \
		--older $(UPGRADE)/build/debug/auspex $(if $(SEED),--seed $(SEED)) $(OPTIONS)
