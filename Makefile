# The commands of the project. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/.cache/bin:$(CURDIR)/.cache/cargo/bin:$(PATH)

TARGET := $(or $(CARGO_TARGET_DIR),target)
BESIDE := .cache/beside.json
# A gate that throws dice refuses good changes and lets bad ones pass: `make test` looks at the same cases each time, `make soak` at others.
PROPTEST_RNG_SEED ?= 1
PROPERTIES = $(addprefix -p mainstay-,fuzz $(sort $(shell grep -rlF 'proptest!' crates --include='*.rs' | cut -d/ -f2)))
DEMO_FLAGS := $(if $(filter-out 0,$(DEMO_EXIT)),--exit)

.PHONY: help demo test soak setup lint fmt deny bench beside differential peers fuzz requirements clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Build, start a cluster, install and upgrade an operator (DEMO_EXIT=1 ends instead of staying)
	@scripts/setup kubectl
	cargo build --profile demo -p mainstay-cli
	@$(TARGET)/demo/mainstay demo $(DEMO_FLAGS)

test: ## Everything that proves the project
	@scripts/setup clients
	@mkdir -p $(TARGET)
	cargo test --workspace --no-run # the program, too: end-to-end tests start it
	@failed=0; RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((2 * $$(nproc)))} MAINSTAY_BIN="$(abspath $(TARGET))/debug/mainstay" RUST_BACKTRACE=0 PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) \
		cargo test --workspace --no-fail-fast -- --show-output 2>&1 | tee $(TARGET)/test.log || failed=1; \
		scripts/summary $(TARGET)/test.log; exit $$failed

soak: ## The long proofs: power cuts, kills, faults, histories and attacks, for hours
	cargo build --workspace --bins
	cargo build --profile measured -p mainstay-cli # attacks are as large as they were found, and so is what meets them
	for round in {1..20}; do PROPTEST_CASES=20000 cargo test --no-fail-fast $(PROPERTIES) -- --quiet; done
	MAINSTAY_SOAK=1 cargo test -p mainstay-store --lib power_cut -- --show-output
	MAINSTAY_SOAK=1 cargo test -p mainstay-olm-v1 --test olm-v1 crashes:: -- --show-output
	MAINSTAY_SOAK=1 cargo test -p mainstay-olm-classic --test olm-classic crashes:: -- --show-output
	MAINSTAY_SOAK=1 MAINSTAY_BIN="$(abspath $(TARGET))/debug/mainstay" cargo test -p mainstay-e2e --test e2e -- --show-output crash:: history::
	for seed in {1..20}; do MAINSTAY_SOAK=1 SEED=$$seed MAINSTAY_BIN="$(abspath $(TARGET))/measured/mainstay" cargo test -p mainstay-e2e --test hostile -- --show-output; done

setup: ## Get what is needed beside Rust, into .cache
	@scripts/setup all

lint: ## Formatting, clippy, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	@$(MAKE) --no-print-directory deny

deny: ## Dependencies: duplicates, licences, sources
	@scripts/setup deny
	@scripts/deny

fmt: ## Format the sources
	cargo fmt --all

bench: ## Measure speed and size, write BENCHMARKS.md
	cargo build --profile measured -p mainstay-cli
	MAINSTAY_BIN="$(abspath $(TARGET))/measured/mainstay" cargo run --quiet --profile measured -p mainstay-e2e --bin bench -- --mainstay $(TARGET)/measured/mainstay --out BENCHMARKS.md $(if $(wildcard $(BESIDE)),--beside $(BESIDE)) $(if $(OPM),--opm $(OPM))

beside: ## Measure upstream's kube-apiserver with etcd here; `make bench` shows it beside
	cargo build --profile measured -p mainstay-e2e --bin bench
	@scripts/kube-apiserver beside $(TARGET)/measured/bench

differential: ## Compare random requests on upstream's kube-apiserver and on `mainstay up` (SEED, SEQUENCES, ONLY)
	cargo build --workspace --bins
	@scripts/kube-apiserver differential $(TARGET)/debug/differential --mainstay $(TARGET)/debug/mainstay $(if $(SEED),--seed $(SEED)) $(if $(SEQUENCES),--sequences $(SEQUENCES)) $(if $(ONLY),--only $(ONLY)) --out $(TARGET)/differential

peers: ## Compare OLM classic with upstream's programs on live clusters; SCENARIOS names fewer
	@scripts/peers $(SCENARIOS)

fuzz: ## Every fuzz target for FUZZ_SECONDS (120) seconds; TARGETS names fewer
	@scripts/fuzz $(TARGETS)

requirements: ## Which test proves which requirement, after `make test`
	@cargo xtask requirements --results $(TARGET)/test.log

clean: ## Remove what was built and fetched
	cargo clean
	rm -rf .cache
