# Every target sets up its own virtual environment when it is missing or older than the lock.
# Needed beforehand: Python 3.11 or later; Java 17 and Maven for the tests and the demo.

PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS ?=
SEEDS ?= 2000
FRAMES ?= 200000
# What runs without Java, without Spark and without a server of another kind, folder by folder. kafkalogs, observer, record
# and status/explain are as pure, and would take make quick beyond its minute.
PURE := $(addprefix tests/,channel_manager core events handlers machines replay/command wire)
FAST := not real and not chaos and not releases
DESTDIR ?=
PREFIX ?= /usr/local
VENV ?= /opt/controllerd/venv

BIN := .venv/bin
READY := .venv/.ready
QUICK_BIN := .venv-quick/bin
QUICK_READY := .venv-quick/.ready
# Progress bars for people; a quiet log for machines.
QUIET := $(if $(MAKE_TERMOUT),,--quiet)
PIP_INSTALL := python -m pip --disable-pip-version-check --no-input install $(QUIET)

LIB = $(DESTDIR)$(PREFIX)/lib
SHARE = $(DESTDIR)$(PREFIX)/share
VENV_PIP_INSTALL = $(VENV)/bin/$(PIP_INSTALL)

PIP_COMPILE := .build/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-header --no-annotate \
	--no-emit-options --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

.DEFAULT_GOAL := help
.PHONY: help demo dev quick test test-real test-releases sim mutants fuzz check bench bench-audit bench-http bench-live bench-replay chaos lock clean setup install install-files install-venv man docs wheel

help: ## Show the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

setup: $(READY) ## Set up .venv from the lock (every other target does it by itself).

$(READY): LOCK := requirements.lock
$(READY): BRINGS := about 700 MB, most of it pyspark; one to a few minutes
$(QUICK_READY): LOCK := requirements-quick.lock
$(QUICK_READY): BRINGS := about 140 MB, without pyspark; less than a minute
$(READY): requirements.lock
$(QUICK_READY): requirements-quick.lock

# What the wheel leaves out, controllerd.dev and broker, is imported from the tree itself: the last line names it to Python.
$(READY) $(QUICK_READY): pyproject.toml requirements-build.lock
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed; name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) is older than 3.11; name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(@D)/bin/python -c '' 2>/dev/null || { echo "[1/4] virtual environment in $(@D)"; $(PYTHON) -m venv --clear $(@D); }
	@echo "[2/4] build tools"
	@$(@D)/bin/$(PIP_INSTALL) --require-hashes -r requirements-build.lock
	@echo "[3/4] locked dependencies ($(BRINGS))"
	@$(@D)/bin/$(PIP_INSTALL) --require-hashes --no-build-isolation -r $(LOCK)
	@echo "[4/4] controllerd itself"
	@$(@D)/bin/$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@echo "$(CURDIR)" > "$$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/controllerd-tree.pth"
	@touch $@

demo: $(READY) ## Tell the story on an embedded cluster: brokers die, leaders move.
	$(BIN)/controllerd demo $(ARGS)

dev: $(READY) ## Start ZooKeeper, three embedded brokers and controllerd until Ctrl-C.
	$(BIN)/controllerd dev $(ARGS)

check: $(READY) ## Format, lint, types, import law, tidy rules.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/test_tidy.py

# Neither Java nor Spark is needed, and the virtual environment holds neither: a test in these folders that needs one
# fails here, and belongs to another folder.
quick: $(QUICK_READY) ## Pure tests and style, in less than a minute: no Java, no Spark, a small environment of its own.
	$(QUICK_BIN)/ruff format --check .
	$(QUICK_BIN)/ruff check .
	$(QUICK_BIN)/lint-imports
	$(QUICK_BIN)/pytest -q -n 2 tests/test_tidy.py tests/test_quick.py $(PURE) $(ARGS)

# Two processes, so that a test that has a server beside it and a clock to keep has a processor for both. Files are taken
# in the order of their names: by their number of tests, xdist's own order, a few long tests would come at the end, when
# the other process has nothing left. The limit is below the 25 minutes of CI, so that the report is still written.
test: $(READY) ## The tier that CI runs: everything but real, releases and chaos.
	$(BIN)/pytest -m "$(FAST)" --session-timeout=1440 $(if $(strip $(ARGS)),$(ARGS),-n 2 --dist loadfile --no-loadscope-reorder)

test-real: $(READY) ## The slower tier, on real brokers.
	$(BIN)/pytest -m real --timeout=600 --session-timeout=3540 $(ARGS)

# The first run downloads about 70 MB for each release.
test-releases: $(READY) ## Brokers of each release from 2.6 on, and an upgrade through them (up to an hour).
	@$(BIN)/python -m tests.releases.jars
	$(BIN)/pytest -m releases --timeout=600 --session-timeout=3540 $(ARGS)

sim: $(READY) ## The simulation: SEEDS=n stories with faults, in virtual time.
	$(BIN)/python -m tests.sim --seeds $(SEEDS) $(ARGS)

mutants: $(READY) ## Plant known bugs one by one: the simulation has to find each.
	$(BIN)/python -m tests.sim.mutants $(ARGS)

fuzz: $(READY) ## Odd and broken frames for the Kafka listener: FRAMES=n, SEED=n to repeat a run.
	$(BIN)/python -m tests.fuzz --frames $(FRAMES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos: $(READY) ## Ten random minutes on three real brokers (CONTROLLERD_CHAOS_SEED, CONTROLLERD_CHAOS_SECONDS).
	$(BIN)/pytest -m chaos --timeout=0 -s $(ARGS)

# Without ARGS a quick look at everything; with them the controller alone.
bench: $(READY) ## Counts and ratios: the controller, its readers, its audit log, the replay.
	$(BIN)/python -m bench $(ARGS)
ifeq ($(strip $(ARGS)),)
	$(BIN)/python -m bench.audit --partitions 2000 --pairs 1
	$(BIN)/python -m bench.replay --engines local
	$(BIN)/python -m bench.http --times 3
endif

bench-http: $(READY) ## How long readers wait at 100,000 partitions, and events for readers (two minutes).
	$(BIN)/python -m bench.http $(ARGS)

bench-live: $(READY) ## The same of a whole daemon on a real ZooKeeper, and what /v1/diff costs (one minute).
	$(BIN)/python -m bench.live $(ARGS)

bench-audit: $(READY) ## What the audit log costs at 100,000 partitions: off, summary, normal, full (half an hour).
	$(BIN)/python -m bench.audit $(ARGS)

bench-replay: $(READY) ## Speed and memory of a replay: BENCH_SIZES=n,n records, BENCH_ENGINES=local,spark.
	$(BIN)/python -m bench.replay $(if $(BENCH_SIZES),--sizes $(BENCH_SIZES)) \
		$(if $(BENCH_ENGINES),--engines $(BENCH_ENGINES)) $(ARGS)

man: $(READY) ## Renew the man pages and the configuration reference from the code.
	$(BIN)/python docs/man_pages.py
	$(BIN)/python docs/configuration.py

docs: man ## Renew every page, table and picture that is made from the code.
	for script in audit_reference diagrams event_reference metric_reference; do $(BIN)/python docs/$$script.py || exit 1; done

# setuptools keeps what it built before: a module that is gone since then would be packed again.
wheel: $(READY) ## Build a wheel of controllerd into dist/.
	@rm -rf build
	@$(BIN)/python -m pip wheel $(QUIET) --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

install: install-venv install-files ## Install for systemd: VENV=/opt/controllerd/venv, PREFIX=/usr/local, DESTDIR= for packages.

# A virtual environment knows its own path, so it is made where it will be used, and never below DESTDIR.
install-venv: $(READY)
ifeq ($(strip $(DESTDIR)),)
	@echo "[1/3] virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/3] locked dependencies (about 700 MB, most of it pyspark; one to a few minutes)"
	@$(VENV_PIP_INSTALL) --require-hashes -r requirements-build.lock
	@$(VENV_PIP_INSTALL) --require-hashes --no-build-isolation -r requirements.lock
	@echo "[3/3] controllerd itself"
	@rm -rf build
	@$(VENV_PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall .
else
	@echo "make: DESTDIR is set: no virtual environment; make it on the machine that it is for: make install-venv" >&2
endif

install-files: $(READY)
	install -d $(LIB)/systemd/system $(LIB)/sysusers.d $(LIB)/tmpfiles.d $(SHARE)/doc/controllerd \
		$(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d \
		$(SHARE)/man/man1 $(SHARE)/man/man5 $(SHARE)/man/man8
	for unit in systemd/*@.*; do \
		sed 's|/opt/controllerd/venv|$(VENV)|' "$$unit" > "$(LIB)/systemd/system/$${unit#systemd/}"; done
	install -m 644 systemd/controllerd.sysusers $(LIB)/sysusers.d/controllerd.conf
	install -m 644 systemd/controllerd.tmpfiles $(LIB)/tmpfiles.d/controllerd.conf
	install -m 644 systemd/example.toml $(SHARE)/doc/controllerd/example.toml
	for section in 1 5 8; do install -m 644 docs/man/*.$$section $(SHARE)/man/man$$section; done
	$(BIN)/controllerctl completion bash > $(SHARE)/bash-completion/completions/controllerctl
	$(BIN)/controllerctl completion zsh > $(SHARE)/zsh/site-functions/_controllerctl
	$(BIN)/controllerctl completion fish > $(SHARE)/fish/vendor_completions.d/controllerctl.fish
	@echo "next: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload"

# pip-compile runs apart from .venv: its own dependencies are nobody else's.
lock: $(READY) ## Renew the lock files (minutes: it hashes every wheel of every platform).
	$(BIN)/python -m venv --clear .build/lock
	.build/lock/bin/python -m pip install --quiet --disable-pip-version-check 'pip-tools>=7.5,<8'
	$(PIP_COMPILE) --allow-unsafe --only-build-deps --all-build-deps --output-file=requirements-build.lock pyproject.toml
	$(PIP_COMPILE) --all-extras --output-file=requirements.lock pyproject.toml
	sed -i.bak -e '/^#/d' -e '/^$$/d' requirements.lock requirements-build.lock
	rm -f requirements.lock.bak requirements-build.lock.bak
	$(MAKE) setup
	$(BIN)/python .ci/quick_lock.py > requirements-quick.lock
	@! grep -nE '://|^-' requirements.lock requirements-quick.lock requirements-build.lock || { echo "make: a lock file names a host or an option" >&2; exit 1; }

clean: ## Remove what was built and cached (.venv and .venv-quick stay).
	rm -rf build dist .build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +
