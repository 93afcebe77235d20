# Everything that a first-time user or a developer calls; `make` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

NODES ?= 4
COLLECTIVES ?= all_reduce
KEEP ?=
# What costs least comes first. Of what is joined by "/", make test runs one, another one at each commit: sanity of another
# ansible-core, the whole job in a demo or in molecule, or one of the four last and the sanity of the ansible-core in .venv.
CHECKS ?= lint-ansible lint-yaml lint-python lint-types lint-changelog lint-workflows lint-shell docs site build \
  sanity-2.18/sanity/sanity-2.20/sanity/sanity-2.21/sanity/sanity-next/sanity \
  sanity-nodes units units-nodes demo/molecule integration kubernetes \
  units-ansible/molecule-kubernetes//fuzz//demo-kubernetes//first-minutes
# all, none, or 2/16: the second of sixteen parts.
SLOW ?= none
ifdef GPUFABRIC_CORPUS
  export GPUFABRIC_CORPUS := $(abspath $(GPUFABRIC_CORPUS))
endif
export NODES COLLECTIVES KEEP

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# The Python of .venv, and the oldest that modules run on.
PYTHON_VERSION = $(shell python -c "import sys; print('%d.%d' % sys.version_info[:2])")
OLDEST_PYTHON := 3.8
# The working tree as an installed collection.
TREE := build/collections/ansible_collections/gpufabric/nccl

.PHONY: help
help: ## list the targets and variables
	@echo "usage: make TARGET [VARIABLE=value ...]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "variables"
	@echo "  NODES=4                  demo, demo-kubernetes: number of nodes or pods; bench: the same, 16 by default"
	@echo "  COLLECTIVES=all_reduce   demo, demo-kubernetes: what to run, separated by commas"
	@echo "  KEEP=1                   demo, demo-kubernetes: leave all running, and say how to remove it"
	@echo "  CHECKS='units docs'      test: only these checks, in this order"
	@echo "  T=FILE K=WORD KEEP=1     one: the file of tests, those whose name has the word; leave its nodes for the next time"
	@echo "  SLOW=none                integration, kubernetes: of the slow tests none, all, or a part such as 2/16"
	@echo "  KUBECONFIG=FILE          kubernetes: a cluster of one's own, with GPUFABRIC_WORKER_IMAGE=IMAGE"
	@echo "  GPUFABRIC_TESTBED=8      kubernetes, demo-kubernetes: number of their cluster, 0 to 9 (see tests/testbed)"
	@echo "  CASES=100000             fuzz: how many damaged outputs"
	@echo "  GPUFABRIC_FUZZ_SEED=7    fuzz: the seed of the damage, 1 by default; a failure prints its own"
	@echo "  MEGABYTES=2000           bench-parser: size of the log"
	@echo "  TRIALS=20                bench-defaults, bench-isolation: how many clusters of each kind"
	@echo "  GPUFABRIC_NCCL_TESTS=DIR gpu: nccl-tests in DIR/build and its libraries in DIR/lib, in place of what it builds"
	@echo "  GPUFABRIC_CORPUS=DIR     units: also read real outputs, those of benchmarks in DIR/nccl and of failures in DIR/fail"

## for users

.PHONY: install
install: .venv/.installed $(TREE) ## install what is needed, in the system (distribution packages) and in .venv

.venv/.installed: requirements.lock requirements.yml scripts/install
	@scripts/install
	@touch $@

.PHONY: browser
browser: ## install Chromium, with which tests open the report
	@scripts/install browser || echo "skipped: the report in a browser: Chromium cannot be installed"

$(TREE):
	@mkdir -p $(@D)
	@ln -s ../../../.. $@

# Asked for before minutes are spent on an installation.
.PHONY: may-be-root
may-be-root:
	@scripts/as-root true

.PHONY: demo
demo: may-be-root install ## the whole job on local nodes without GPUs; results in build/demo
	@scripts/as-root scripts/alone demo scripts/demo up

.PHONY: demo-down
demo-down: install ## remove the nodes that "make demo KEEP=1" left
	@scripts/as-root scripts/alone demo scripts/demo down

.PHONY: first-minutes
first-minutes: install ## README's commands for an installed collection, on a Debian 12 and a Debian 13 in which nothing was installed
	scripts/as-root scripts/alone $@ scripts/first-minutes bookworm
	scripts/as-root scripts/alone $@ scripts/first-minutes trixie

.PHONY: demo-kubernetes
demo-kubernetes: may-be-root install ## the whole job on pods of a cluster that it starts (built first, once: minutes)
	@scripts/as-root scripts/alone "cluster-$${GPUFABRIC_TESTBED:-9}" scripts/demo-kubernetes up

.PHONY: demo-kubernetes-down
demo-kubernetes-down: install ## remove the cluster that "make demo-kubernetes KEEP=1" left
	@scripts/as-root scripts/alone "cluster-$${GPUFABRIC_TESTBED:-9}" scripts/demo-kubernetes down

## checks: each ends with 0 when it passed; a line "skipped: REASON" in the output says what it left out

.PHONY: quick
quick: install lint-yaml lint-python lint-types lint-changelog lint-workflows lint-shell units-quick ## what to run while working: linters, units on one Python

.PHONY: one
one: install $(TREE) ## one test: make one T=tests/integration/test_free_port.py K=sshd
	@scripts/one "$(T)" "$(K)"

.PHONY: test
test: install ## all kinds of checks and a part of the slow tests, with a summary (also .ci/run)
	@python scripts/test $(CHECKS)

.PHONY: test-all
test-all: install ## all checks with all slow tests, before a release
	@python scripts/test --slow all --minutes 240 $(CHECKS)

.PHONY: lint
lint: lint-ansible lint-yaml lint-python lint-types lint-changelog lint-workflows lint-shell ## all linters

.PHONY: lint-ansible
lint-ansible: install ## ansible-lint, profile production
	# Collections in the user's own directory would come before this tree.
	ANSIBLE_HOME=$(CURDIR)/build/home/.ansible ansible-lint

.PHONY: lint-yaml
lint-yaml: install ## yamllint
	yamllint --strict .

.PHONY: lint-python
lint-python: install ## ruff: rules and format
	ruff check .
	ruff format --check .

.PHONY: lint-types
lint-types: install $(TREE) ## mypy over plugins
	mypy

.PHONY: lint-changelog
lint-changelog: install ## antsibull-changelog
	antsibull-changelog lint

.PHONY: lint-workflows
lint-workflows: install ## workflows of GitHub and the examples for CI: their schemas, zizmor, and actionlint if it is installed
	check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml docs/examples/ci/github.yml
	check-jsonschema --builtin-schema vendor.gitlab-ci docs/examples/ci/gitlab.yml
	zizmor --quiet --offline --no-progress .github/workflows docs/examples/ci/github.yml
	@if command -v actionlint >/dev/null; then \
	  actionlint .github/workflows/*.yml docs/examples/ci/github.yml; \
	else \
	  echo "skipped: actionlint is not installed"; \
	fi

.PHONY: lint-shell
lint-shell: ## shellcheck
	@if command -v shellcheck >/dev/null; then \
	  find .ci/run containers scripts tests/stand_in/nvidia-smi tests/testbed -type f \
	    -exec awk 'FNR == 1 && /^#!.*bash/ { print FILENAME }' {} + | \
	    xargs -t shellcheck --external-sources; \
	else \
	  echo "skipped: shellcheck is not installed"; \
	fi

.PHONY: sanity
sanity: install ## ansible-test sanity
	scripts/ansible-test $@ $(PYTHON_VERSION) --local --requirements --junit

.PHONY: sanity-nodes
sanity-nodes: install ## ansible-test sanity, on the oldest Python of nodes, where there is one
	scripts/ansible-test $@ $(OLDEST_PYTHON) --local --requirements --junit --test compile --test import

# That of .venv is 2.19. ansible-test of earlier ones than 2.18 checks for Pythons that nobody is for any more.
SANITY_CORES := sanity-2.18 sanity-2.20 sanity-2.21 sanity-next
.PHONY: $(SANITY_CORES)
$(SANITY_CORES): sanity-%: install
	core=$$(scripts/ansible-core $*) && export PATH=$$core/bin:$$PATH && \
	  scripts/ansible-test $@ "$$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" --local --requirements --junit \
	  $(if $(filter next,$*),--skip-test pylint)
	$(if $(filter next,$*),@echo "skipped: pylint: a pre-release may need parts of it that no package index has")

# The collection's tests, from where an installed collection would have them.
PYTEST_UNITS = cd build/collections && PYTHONPATH=. pytest --quiet --numprocesses 2 -p no:cacheprovider
UNITS := ansible_collections/gpufabric/nccl/tests/unit

.PHONY: units
units: install browser $(TREE) ## unit tests, on the Python of .venv
	$(PYTEST_UNITS) --junit-xml $(CURDIR)/build/junit/units/units.xml $(UNITS)

.PHONY: units-ansible
units-ansible: install browser ## the same by ansible-test, each test in a process of its own: four times as long
	scripts/ansible-test $@ $(PYTHON_VERSION) --local

.PHONY: units-nodes
units-nodes: install $(TREE) ## units of what nodes run, without the slow ones, on the oldest Python of nodes, where there is one
	scripts/units-nodes $(OLDEST_PYTHON)

.PHONY: units-quick
units-quick: install $(TREE) ## units without the slow ones
	$(PYTEST_UNITS) -m "not slow" $(UNITS)

.PHONY: fuzz
fuzz: CASES ?= 100000
fuzz: install $(TREE) ## damaged outputs to the parser of nccl_result
	cd build/collections && PYTHONPATH=. GPUFABRIC_FUZZ=$(CASES) pytest -q --timeout 0 -p no:cacheprovider \
	  $(UNITS)/plugins/module_utils/_nccl_tests/test_properties.py

.PHONY: docs
docs: install $(TREE) ## documentation of plugins and roles, by antsibull-docs; pages that are made from the code
	# Collections in .venv are part of this repository otherwise, and ignored, so that antsibull-docs would not see them.
	GIT_CEILING_DIRECTORIES=$(CURDIR) antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs dependent --disallow-unknown-collection-refs .
	scripts/render-roles --check
	scripts/render-pages --check
	scripts/pictures --check

.PHONY: site
site: install $(TREE) ## the documentation site, in build/site/html, by antsibull-docs and Sphinx; a warning is an error
	scripts/site

.PHONY: build
build: install ## build the collection, import it as Galaxy does, and use the built file from an empty path
	scripts/build

.PHONY: integration
integration: install $(TREE) ## real sshd and mpirun on local nodes
	# A third of the time four cores wait where three files run beside each other.
	scripts/as-root pytest tests/integration --ignore tests/integration/kubernetes \
	  --numprocesses 4 --dist loadfile --no-loadscope-reorder --slow $(SLOW) --durations 100 --durations-min 3
	scripts/render-fault-matrix --check "local nodes"

.PHONY: kubernetes
kubernetes: install $(TREE) ## the same on pods: KUBECONFIG's cluster, else kind's, else one from Debian packages (see tests/testbed)
	# Much of the time these wait, each in a namespace of its own; where they do not, a play takes long.
	scripts/as-root scripts/with-cluster pytest tests/integration/kubernetes \
	  --numprocesses 4 --timeout 1800 --slow $(SLOW) --durations 100 --durations-min 3
	scripts/render-fault-matrix --check pods

.PHONY: molecule
molecule: install ## molecule scenario default
	scripts/as-root scripts/alone molecule molecule test --scenario-name default

.PHONY: molecule-kubernetes
molecule-kubernetes: install ## molecule scenario kubernetes, on the same cluster as the target kubernetes
	scripts/as-root scripts/with-cluster molecule test --scenario-name kubernetes

.PHONY: bench
bench: NODES := 16
bench: install ## time of a run against the same work without Ansible, and against the usual recipe
	scripts/as-root scripts/alone bench scripts/bench

.PHONY: bench-launch
bench-launch: install ## what starting programs costs, Open MPI 4.1 and 5.0 (parts and settings: see scripts/bench-launch)
	scripts/as-root scripts/alone bench scripts/bench-launch

.PHONY: bench-preflight
bench-preflight: install ## what looks before a launch cost, over NODES=16 local nodes (see scripts/bench-preflight)
	scripts/as-root scripts/alone bench scripts/bench-preflight

.PHONY: bench-parser
bench-parser: install $(TREE) ## speed and memory of the parser of nccl_result, against two other ways
	cd build/collections && PYTHONPATH=. python ansible_collections/gpufabric/nccl/tests/benchmark/parser.py

.PHONY: bench-payloads
bench-payloads: install ## what each module sends to a node, and how long its imports take
	python tests/benchmark/payloads.py

.PHONY: gpu
gpu: install $(TREE) ## on a machine with GPUs: record what nccl-tests, NCCL and nvidia-smi print, and how it is read, in build/gpu
	cd build/collections && PYTHONPATH=. python ansible_collections/gpufabric/nccl/tests/gpu/record.py $(CURDIR)/build/gpu

.PHONY: bench-defaults
bench-defaults: TRIALS := 20
bench-defaults: install $(TREE) ## which faults the defaults of benchmark and isolate see, by simulation over published bandwidths
	cd build/collections && PYTHONPATH=. python ansible_collections/gpufabric/nccl/tests/benchmark/defaults.py $(TRIALS)

.PHONY: bench-isolation
bench-isolation: TRIALS := 20
bench-isolation: install $(TREE) ## how many tests it takes to find bad machines, and how often that is right, by simulation
	cd build/collections && PYTHONPATH=. python ansible_collections/gpufabric/nccl/tests/benchmark/isolation.py $(TRIALS)

## upkeep

.PHONY: lock
lock: install ## pin the newest versions of requirements-dev.txt, with the hashes of their files, in requirements.lock
	@uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
	  requirements-dev.txt --output-file requirements.lock

.PHONY: release
release: install ## make the file of a release, and show the commands that publish it (see CONTRIBUTING.md)
	@scripts/release

.PHONY: clean
clean: ## remove build and .venv, and what tests that were killed left running
	@if [[ -x .venv/bin/python && -e $(TREE) ]]; then scripts/as-root python tests/integration/groups.py; fi
	@scripts/as-root rm -rf build .venv .ansible
	@du --summarize --human-readable --total /var/cache/gpufabric-* 2>/dev/null | sed '$$s/^/kept; make clean-caches removes them: /' || true

.PHONY: clean-caches
clean-caches: ## also remove what the tests have built outside this directory: clusters, versions of Open MPI, nccl-tests, root directories
	@scripts/as-root scripts/clean-caches
	@$(MAKE) --no-print-directory clean
