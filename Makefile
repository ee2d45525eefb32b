.DEFAULT_GOAL := help

# nextest where it is installed: it runs tests of all crates side by side. Plain cargo does the same, slower.
TEST_RUNNER := $(shell cargo nextest --version >/dev/null 2>&1 && echo "nextest run" || echo "test")

# Where cargo leaves what it builds.
BUILT := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help
help: ## Say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 13

.PHONY: run
run: ## Build and run the service on SQLite at http://127.0.0.1:8080
	cargo run --release --package auspex-server -- serve

.PHONY: demo
demo: ## Play a small marketplace story on a temporary database, and show the answers
	cargo run --release --quiet --package auspex-server -- demo

.PHONY: test
test: ## Run every test, on SQLite and on a throw-away PostgreSQL
	scripts/test-peers
	scripts/with-postgres cargo $(TEST_RUNNER) --workspace

.PHONY: contract
contract: ## Let Schemathesis hold the service to its own OpenAPI document
	scripts/contract

.PHONY: lint
lint: ## Check formatting and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- --deny warnings

.PHONY: bench
bench: ## Measure what the documentation claims, as ratios within one run
	cargo build --release --quiet --package auspex-server --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench $(BUILT)/release/auspex

.PHONY: bench-reads
bench-reads: ## Measure reads among a million objects on both databases; seeding them takes some minutes
	cargo build --release --quiet --package auspex-bench
	scripts/with-postgres --durable $(BUILT)/release/auspex-bench reads 1000000

.PHONY: eval
eval: ## Judge the embedded model on held-out histories (and on public sets where AUSPEX_EVAL_DATA names their folder)
	mkdir -p target/eval
	python3 training/evaluate.py questions target/eval/questions.jsonl $(AUSPEX_EVAL_DATA)
	cargo run --release --quiet --package auspex-analyzer --example answer -- target/eval/questions.jsonl > target/eval/answers.jsonl
	python3 training/evaluate.py judge target/eval/answers.jsonl

.PHONY: eval-weaknesses
eval-weaknesses: ## Judge the embedded model on held-out generated cases: numbers, scales, long histories, senders and others
	mkdir -p target/eval
	python3 training/generate.py questions target/eval/weaknesses.jsonl
	cargo run --release --quiet --package auspex-analyzer --example answer -- target/eval/weaknesses.jsonl > target/eval/weaknesses-answers.jsonl
	python3 training/generate.py judge target/eval/weaknesses-answers.jsonl
