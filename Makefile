# Two commands matter: `make demo` and `make test`. Both set up what they need.

VENV    := .venv
BIN     := $(VENV)/bin
PYTHON  ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
             $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
             && { echo $$p; break; }; done)
ARGS    ?=
TESTS   ?= tests
WORKERS ?= 2

.PHONY: demo test check lock clean system-packages

demo: $(VENV)/.demo
	@$(BIN)/veridical demo $(ARGS)

test: $(VENV)/.dev system-packages check
	@$(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder $(TESTS) $(ARGS)

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/basedpyright

$(BIN)/uv: locks/uv.txt
	@test -n "$(PYTHON)" || { echo "Veridical needs Python 3.11, 3.12 or 3.13: install one, or name it with make PYTHON=/path/to/python3" >&2; exit 3; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: install the package python3-venv, then run make again" >&2; exit 3; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/uv.txt
	@touch $(BIN)/uv

# Setting up takes a minute with a warm package cache, a few minutes without. Everything is compiled
# once: the many processes of a run would each do it again where Python may not write its cache.
$(VENV)/.demo: $(BIN)/uv locks/demo.txt pyproject.toml
	@echo "Setting up Veridical in $(VENV) ..." >&2
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r locks/demo.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q pipeline adapters actors serve
	@touch $@

$(VENV)/.dev: $(VENV)/.demo locks/dev.txt
	@echo "Setting up what the tests need ..." >&2
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r locks/dev.txt
	@touch $@

# A browser for the report's test is the one thing that no Python package ships.
system-packages:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { if [ "$$(id -u)" = 0 ]; then SUDO=; else SUDO="sudo -n"; fi; \
	    echo "Installing chromium for the browser tests ..." >&2; \
	    $$SUDO apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$SUDO apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

lock: $(BIN)/uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade \
	  pyproject.toml locks/build.in --extra embedded --extra demo -o locks/demo.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  pyproject.toml locks/build.in --extra embedded --extra demo --group dev -c locks/demo.txt -o locks/dev.txt
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  - -c locks/demo.txt -o locks/uv.txt

clean:
	rm -rf $(VENV) .veridical .pytest_cache .ruff_cache *.egg-info
	find pipeline adapters actors serve tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
