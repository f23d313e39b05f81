# Two commands matter: `make demo` and `make test`. Both set up what they need, inside the clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo

# Everything but the extension, which has no tests without an interpreter.
CRATES := --workspace --exclude keyprint-python
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock
SAY = @printf '\n\033[1m== %s\033[0m\n'

.PHONY: help demo test bench setup site wheel check-rust check-python test-rust test-python test-all-pythons test-cuda bench-gpu test-frameworks check-debug fuzz fuzz-keys fuzz-kernels clean
help:
	@echo "make demo              build everything, run the main job"
	@echo "make test              build everything, run every check"
	@echo "make bench             all benchmarks, beside their peers, in one run; writes bench/report.md"
	@echo "make site              the guides as a site, in target/site"
	@echo "make wheel             a wheel and a source distribution in dist/, tried in empty environments"
	@echo "make test-cuda         the tests of kernels on a real CUDA device, and under compute-sanitizer"
	@echo "make bench-gpu         kernels and launches on a CUDA device, beside CUDA C and peers; writes bench/gpu.md"
	@echo "make test-all-pythons  the Python tests on every CPython 3.10-3.13 found"
	@echo "make check-debug       the Python tests on a build with all assertions and overflow checks"
	@echo "make test-frameworks   tests beside torch, JAX, pandas and others, in an environment of their own"
	@echo "make fuzz-keys         judge keys by random programs and edits (PAIRS=10000 FIRST=0)"
	@echo "make fuzz-kernels      judge kernels by random programs and an interpreter (PROGRAMS=10000 BATCH=0)"
	@echo "make fuzz              fuzz the encoder for a minute (needs cargo-fuzz)"

# -- Setting up ----------------------------------------------------------------------------------

setup: $(VENV)/.built

$(VENV)/.tools: requirements/tools.txt requirements/test.txt
	$(SAY) "Python tools: a virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/tools.txt -r requirements/test.txt
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(RUST_SOURCES) pyproject.toml
	$(SAY) "The extension: compiling"
	@PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release
	@touch $@

# Builds a wheel with a profile ($2) and installs it into an environment ($1) of its own.
define install
rm -rf $1/wheels && $(BIN)/maturin build --quiet --profile $2 --interpreter $1/bin/python --out $1/wheels \
	&& $1/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps $1/wheels/*.whl
endef

# -- The main job --------------------------------------------------------------------------------

demo: setup
	$(SAY) "Demo"
	@$(BIN)/python examples/demo.py

# -- Checks --------------------------------------------------------------------------------------

test: check-rust test-rust check-python test-python
	$(SAY) "All checks passed"

check-rust: $(VENV)/.tools
	$(SAY) "Rust: format"
	$(CARGO) fmt --all --check
	$(SAY) "Rust: lints"
	PYO3_PYTHON="$(CURDIR)/$(BIN)/python" $(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(SAY) "Rust: documentation"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --quiet $(CRATES)

test-rust:
	$(SAY) "Rust: tests"
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run $(CRATES) --no-tests=pass; \
	else \
		$(CARGO) test --quiet $(CRATES) --lib --bins --tests; \
	fi
	$(SAY) "Rust: examples in the documentation"
	$(CARGO) test --quiet $(CRATES) --doc
	$(SAY) "Rust: examples"
	$(CARGO) run --quiet -p keyprint-fingerprint --example derive
	$(CARGO) run --quiet -p keyprint-key --example why
	$(CARGO) run --quiet -p keyprint-store --example one_build

check-python: setup
	$(SAY) "Python: format and lints"
	$(BIN)/ruff format --check python tests bench examples docs
	$(BIN)/ruff check python tests bench examples docs
	$(SAY) "Python: layers"
	$(BIN)/lint-imports --no-logo --no-cache
	$(SAY) "Python: types"
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest keyprint._native --allowlist tests/stubtest-allowlist.txt --ignore-disjoint-bases

test-python: setup
	$(SAY) "Python: tests"
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8
	$(SAY) "Python: the kernel language on an emulated CUDA device"
	TEST_BACKEND=emulated $(BIN)/python -m pytest -q -n auto --maxprocesses 8 -r fE tests/python/language

# The same on a real one, then beside other libraries on it, then under its checkers.
test-cuda: setup
	@PYTHON="$(CURDIR)/$(BIN)/python" tests/on_a_gpu

bench-gpu: setup bench/.venv-quadrants/.done
	$(SAY) "Benchmarks on a GPU"
	$(BIN)/python bench/gpu

test-all-pythons: setup
	@BIN="$(CURDIR)/$(BIN)" tests/all_pythons

check-debug: $(VENV)/.tools
	$(SAY) "Python: tests, on a build with assertions and overflow checks"
	@test -x .venvs/checked/bin/python || $(PYTHON) -m venv .venvs/checked
	@.venvs/checked/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/test.txt
	@$(call install,.venvs/checked,checked)
	.venvs/checked/bin/python -m pytest -q

# Values of torch, JAX, pandas and others, and pipelines made of them: a large environment, so not part of `test`.
test-frameworks: .venvs/frameworks/.done
	$(SAY) "Python: tests beside other libraries"
	@$(call install,.venvs/frameworks,release)
	.venvs/frameworks/bin/python -m pytest -q tests/frameworks

.venvs/frameworks/.done: requirements/frameworks.txt $(VENV)/.tools
	@test -x .venvs/frameworks/bin/python || $(PYTHON) -m venv .venvs/frameworks
	@.venvs/frameworks/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/frameworks.txt
	@touch $@

# Random programs with random edits, judged by plain Python: PAIRS of them, from the seed FIRST on.
PAIRS ?= 10000
FIRST ?= 0
fuzz-keys: setup
	@cd tests && ../$(BIN)/python -m oracle --pairs $(PAIRS) --first $(FIRST)

# Random programs of the kernel language, judged by an interpreter of its semantics: PROGRAMS of them, from BATCH on;
# LOOPS kernels of several loops, judged by plain Python; and GRAPHS graphs, launched and resumed.
PROGRAMS ?= 10000
LOOPS ?= 1000
GRAPHS ?= 500
BATCH ?= 0
fuzz-kernels: setup
	@cd tests && ../$(BIN)/python -m semantics --programs $(PROGRAMS) --loops $(LOOPS) --graphs $(GRAPHS) --first $(BATCH)

fuzz:
	cd fuzz && $(CARGO) fuzz run --sanitizer none encode -- -max_total_time=60

# -- What is given away --------------------------------------------------------------------------

site: setup target/site-venv/.done
	$(SAY) "The guides"
	@$(BIN)/python docs/tables.py
	@NO_MKDOCS_2_WARNING=1 target/site-venv/bin/mkdocs build --strict
	@echo "target/site/index.html"

target/site-venv/.done: requirements/docs.txt
	@test -x target/site-venv/bin/python || $(PYTHON) -m venv target/site-venv
	@target/site-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

wheel: $(VENV)/.tools
	@PYTHON="$(PYTHON)" MATURIN="$(BIN)/maturin" tests/distributions

# -- Benchmarks ----------------------------------------------------------------------------------

bench: bench/.venv/.peers bench/.venv-quadrants/.done
	$(SAY) "The extension, for the benchmark's own environment"
	@$(call install,bench/.venv,release)
	@bench/.venv/bin/python bench/report.py
	$(SAY) "Derived encodings, from Rust"
	@$(CARGO) bench --quiet -p keyprint-fingerprint

bench/.venv/.peers: requirements/peers.txt $(VENV)/.tools
	$(SAY) "Peers: a virtual environment in bench/.venv"
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	@while read -r peer; do \
		case "$$peer" in ''|\#*) continue;; esac; \
		printf '%s ... ' "$$peer"; \
		bench/.venv/bin/python -m pip install --quiet --disable-pip-version-check $$peer >bench/.venv/log 2>&1 \
			&& echo installed || echo "cannot be installed; left out"; \
	done < requirements/peers.txt
	@touch $@

# Quadrants wants versions of its own.
bench/.venv-quadrants/.done: requirements/quadrants.txt
	$(SAY) "Quadrants: a virtual environment in bench/.venv-quadrants"
	@$(PYTHON) -m venv bench/.venv-quadrants
	@bench/.venv-quadrants/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/quadrants.txt \
		|| { echo "cannot be installed; left out"; rm -rf bench/.venv-quadrants/bin/python; }
	@touch $@

clean:
	rm -rf target $(VENV) .venvs bench/.venv bench/.venv-quadrants
