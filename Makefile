# Everything that a fresh machine needs is installed by these targets, into .venv and the user's
# cache directory. Needs make and Python >= 3.11.
.POSIX:
.SUFFIXES:
.DEFAULT_GOAL := help

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && echo $$p && break; done)
# Dozens of processes import the same modules: they keep what they compile, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
RUNTIME := .venv/.runtime
INSTALLED := .venv/.installed

IMAGE ?= desched:latest
IMAGE_BUILD ?= docker build
SCENARIO ?= load
TESTS ?= tests/controlplane
PLUGIN_PYTHONS ?= $(BIN)/python
SITE ?= build/site

# mypy's cache of the last check of this user, in whatever clone: mypy compares contents, not times.
TYPES_CACHE = "$${XDG_CACHE_HOME:-$$HOME/.cache}/desched/mypy"

# Whole files side by side, in their order: tests of a file share what is expensive.
PYTEST := $(BIN)/pytest --dist loadfile --no-loadscope-reorder --tb=short
NODES := $(PYTEST) --numprocesses 0 tests/nodes
# Each of these processes has a control plane of its own; those mostly wait.
CONTROL_PLANES ?= 5
BESIDE_CONTROL_PLANES := $(PYTEST) -o cache_dir=build/failed tests/controlplane tests/properties \
	tests/contracts tests/browser tests/image

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

demo: $(RUNTIME) ## the main job on a simulated cluster; with SCENARIO=ai or gpus on one with GPUs
	@mkdir -p build
	@$(BIN)/desched demo --scenario $(SCENARIO) --report build/demo.html

# Checks and unit tests run beside the control planes, in the time in which those wait. Real nodes use
# CPU, so they come last and alone. A machine that stalls fails a test now and then: the failed tests
# run once more, alone; on real nodes all of them, because their stories build on each other.
test: controlplane-binaries browser ## everything: check, unit tests, all other tests
	@mkdir -p build
	@(nice -n 5 $(MAKE) --no-print-directory check unit > build/unit.log 2>&1; code=$$?; \
		cat build/unit.log; exit $$code) & unit=$$!; trap 'kill $$unit' INT TERM; failed=0; again=0; \
		$(BESIDE_CONTROL_PLANES) --numprocesses $(CONTROL_PLANES) || again=1; \
		wait $$unit || { failed=1; tail -n 40 build/unit.log; }; \
		test $$again = 0 || { echo 'ONCE MORE, ALONE. Whatever passes now is flaky: mend it.'; \
		$(BESIDE_CONTROL_PLANES) -v --numprocesses 0 --maxfail 3 \
		--last-failed --last-failed-no-failures none || failed=1; }; \
		$(NODES) || { echo 'ONCE MORE. Whatever passes now is flaky: mend it.'; $(NODES) -v; } || \
		failed=1; exit $$failed

slow-tests: controlplane-binaries ## the tests of TESTS, beside control planes
	@$(PYTEST) --numprocesses $(CONTROL_PLANES) $(TESTS)

nodes: controlplane-binaries ## the tests on real kubelets, as root, about twenty minutes
	@$(NODES)

# Everything is in name spaces of its own, and ends with it.
reality: controlplane-binaries ## a hot node and its relief on real kubelets, as root, in about six minutes
	@$(BIN)/python -m drills.reality

check: $(INSTALLED) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@test -d .mypy_cache || tar -xf $(TYPES_CACHE)/last.tar 2>/dev/null || rm -rf .mypy_cache
	$(BIN)/mypy
	-@mkdir -p $(TYPES_CACHE) && tar -cf $(TYPES_CACHE)/$$$$ .mypy_cache && mv $(TYPES_CACHE)/$$$$ $(TYPES_CACHE)/last.tar
	$(BIN)/lint-imports

format: $(INSTALLED) ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Three, because some of these tests wait: on 2 CPUs a sixth faster than two.
unit: $(INSTALLED) ## the unit tests, about five minutes on 2 cores
	@$(PYTEST) --numprocesses 3 tests/unit

# The lock is between both; the bounds of pyproject.toml are true only if these pass, too.
RESOLUTION_lowest = lowest-direct
RESOLUTION_newest = highest
INSTALL = $(BIN)/uv pip install --quiet --python build/$@/bin/python
lowest newest: $(INSTALLED) ## the unit tests with the lowest or the newest dependencies that pyproject.toml allows
	@mkdir -p build
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --no-header --python $(BIN)/python --resolution $(RESOLUTION_$@) \
		--all-extras pyproject.toml -o build/$@.txt
	@$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python build/$@
	@$(INSTALL) -r build/$@.txt
	@$(INSTALL) --constraint build/$@.txt --group test --group build
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@build/$@/bin/python -m pytest --dist loadfile --no-loadscope-reorder --tb=short \
		--numprocesses 3 tests/unit

coverage: $(INSTALLED) ## the unit tests, and which lines they run
	@$(PYTEST) --numprocesses 2 --cov --cov-report=term:skip-covered tests/unit

properties: $(INSTALLED) ## the property tests with more examples, and the contracts of the simulation
	@$(PYTEST) --numprocesses 2 --hypothesis-profile thorough tests/properties tests/contracts

# Half an hour and more on 2 idle CPUs; the seed and the sample are arguments of the module.
mutation: $(INSTALLED) ## put small faults into the core, and count those that fail a test
	@$(BIN)/python -m drills.mutation

# In CI the binaries must be there; elsewhere their tests skip and say how to get them.
controlplane-binaries: $(INSTALLED) ## find or build the control plane and what nodes run for the tests
	@$(BIN)/python -m tests.controlplane.binaries >/dev/null || test "$$CI" != true

# In CI there must be one; elsewhere the tests that need it skip and say how to get it.
browser: $(INSTALLED) ## find or unpack a browser for the tests of pages
	@$(PIP) --require-hashes -r requirements/browser.txt
	@$(BIN)/python -m tests.browser.chromium >/dev/null || test "$$CI" != true

pictures: browser ## take the pictures of docs/pictures
	@$(BIN)/python -m tests.browser.screenshots

# An hour on 2 idle CPUs; a shorter form is part of the tests. `--form incidents` is a harsher one.
soak: controlplane-binaries ## churn and faults for an hour; writes docs/soak
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bench.txt
	@$(BIN)/python -m tests.controlplane.soak --report docs/soak

# An hour on 2 idle CPUs with 12 GiB, on two control planes at once.
attacks: controlplane-binaries ## all attacks of the threat model at once for an hour, beside the same hour without
	@$(BIN)/python -m drills.attacks

wheel: $(RUNTIME) ## build the wheel into dist/
	@rm -f dist/desched-*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--no-index --wheel-dir dist .

# Of the wheel with the dependencies of the lock, in CycloneDX; the same for the same commit.
sbom: wheel ## write the bill of materials of the wheel into dist/
	@$(PIP) --require-hashes -r requirements/release.txt
	@$(BIN)/python -m venv --clear --without-pip build/sbom
	@$(BIN)/python -m pip --python build/sbom/bin/python install --quiet --no-compile --require-hashes \
		-r requirements/runtime.txt
	@$(BIN)/python -m pip --python build/sbom/bin/python install --quiet --no-compile --no-deps \
		--no-index dist/desched-*.whl
	@$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file "dist/$$(basename dist/desched-*.whl .whl).cdx.json" build/sbom/bin/python

# Any tool that builds from a Dockerfile will do; the pipeline of a release builds for all architectures.
image: ## build the image of this machine's architecture
	$(IMAGE_BUILD) --tag $(IMAGE) .

# One file with all dependencies, by the hashes of the lock, for krew. It needs a Python of PLUGIN_PYTHONS.
kubectl-plugin: wheel ## build the archive of the kubectl plug-in for this platform into dist/
	@$(PIP) --require-hashes -r requirements/release.txt
	@rm -rf build/kubectl-plugin && mkdir -p build/kubectl-plugin
	@for wheel in dist/desched-*.whl; do \
		echo "$$PWD/$$wheel --hash=sha256:$$($(BIN)/python -m pip hash $$wheel | tail -n 1 | cut -d: -f2)"; \
		done > build/kubectl-plugin.txt
	@$(BIN)/pex --requirement requirements/runtime.txt --requirement build/kubectl-plugin.txt \
		$(PLUGIN_PYTHONS:%=--python %) --python-shebang '/usr/bin/env python3' \
		--console-script kubectl-desched --no-compile --output-file build/kubectl-plugin/kubectl-desched
	@cp LICENSE build/kubectl-plugin
	@tar --create --gzip --directory build/kubectl-plugin --file "dist/$$($(BIN)/python -m \
		tests.krew_manifest)" kubectl-desched LICENSE
	@build/kubectl-plugin/kubectl-desched version

# With SITE=FOLDER it adds this version to a site that has others.
site: $(RUNTIME) ## build the documentation site into build/site, with strict links
	@$(PIP) --require-hashes -r requirements/site.txt
	@$(BIN)/python -m tests.site build/site-source
	@$(BIN)/zensical build --strict
	@$(BIN)/python -m tests.site build/site-version $(SITE)

generated: $(INSTALLED) ## write what is generated: references, schema, flags, manifests
	$(BIN)/python -m tests.policy_reference > docs/policy-reference.md
	$(BIN)/python -m tests.policy_reference --schema > policies/desched-policy.schema.json
	$(BIN)/python -m tests.setting_flags > desched/cli/setting_flags.json
	$(BIN)/python -m tests.man_page
	$(BIN)/python -m tests.report_reference
	$(BIN)/python -m tests.permission_tables
	$(BIN)/python -m tests.controlplane.chart_rendering
	$(BIN)/python -m tests.chart_reference
	$(BIN)/python -m tests.chart_package

# Pins keep their extras: pip 23 takes a pin without one for another package, and then the newest.
LOCK := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-header --quiet
lock: $(INSTALLED) ## pin the newest versions of all dependencies, with hashes
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) --upgrade --extra google --extra otel --extra report --extra workers \
		--group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) -c requirements/dev.txt --extra otel --extra report \
		pyproject.toml -o requirements/runtime.txt
	$(LOCK) -c requirements/dev.txt --extra otel --extra report \
		--extra google pyproject.toml \
		-o requirements/google.txt
	$(LOCK) -c requirements/dev.txt --extra otel --extra report \
		--extra workers pyproject.toml \
		-o requirements/workers.txt
	$(LOCK) --extra otel --extra report --extra aws pyproject.toml \
		-o requirements/aws.txt
	$(LOCK) --no-deps \
		-c requirements/aws.txt --group signing \
		-o requirements/signing.txt
	$(LOCK) -c requirements/dev.txt --group build -o requirements/build.txt
	$(LOCK) -c requirements/dev.txt --group bench -o requirements/bench.txt
	$(LOCK) -c requirements/dev.txt --group release -o requirements/release.txt
	$(LOCK) -c requirements/dev.txt --group site -o requirements/site.txt
	$(LOCK) -c requirements/dev.txt --group browser -o requirements/browser.txt

clean: ## remove what was built here (not the user's cache)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .import_linter_cache build dist

# What desched needs to run. --no-build-isolation: the build backend is pinned with the rest, nothing
# else is fetched. --no-compile: Python compiles the few modules that it imports.
$(RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 is needed; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing desched into .venv (once) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# The tools for development on top.
$(INSTALLED): $(RUNTIME) requirements/dev.txt requirements/signing.txt
	@echo "Installing the tools for development into .venv (once) …"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --require-hashes --no-deps -r requirements/signing.txt
	@touch $@

.PHONY: help demo test slow-tests nodes reality check format unit lowest newest coverage properties mutation controlplane-binaries browser pictures soak attacks wheel sbom image kubectl-plugin site generated lock clean
