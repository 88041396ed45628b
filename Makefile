# Everything a developer or CI does. Scripts run on the Node that package.json pins.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

VERSION := $(shell sed -n 's/^  "version": "\(.*\)",/\1/p' package.json)
# A fixed length: git's own depends on how many objects a clone has, and so two builds would differ.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
SHIM_SOURCES := $(wildcard shim/*.c shim/*.h) shim/Makefile
TS_SOURCES := $(shell find src -name '*.ts' ! -name '*.test.ts')

# The engine's targets are in e2e/fuzz/targets, the shim's in shim/test/fuzz.c.
FUZZ_TARGETS := shim-frame shim-plan annotation nad multus conf result configuration frame plan message docker
FUZZ_SECONDS := $(if $(HOURS),$(shell expr $(HOURS) \* 3600),60)

.DEFAULT_GOAL := help
.PHONY: help deps deps-test build demo test lint conformance fuzz cluster e2e fresh chaos powerloss simulate mutate soak bench docs image kind docker chart release clean FORCE

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

deps: node_modules/.package-lock.json ## install what building and testing need
	@scripts/system-deps.sh build

deps-test: deps
	@scripts/system-deps.sh test

# The packages run on the pinned Node, so npm's warnings about the system's Node do not matter.
node_modules/.package-lock.json: package.json package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

build: deps dist/plexus dist/plexusd.js dist/plexusctl.js dist/plexus-standalone ## build everything into dist/

# Shim and bundle contain version and commit, which plexusctl doctor compares: another one rebuilds both.
dist/.version: FORCE
	@mkdir -p dist && { [ "$$(cat $@ 2>/dev/null)" = "$(VERSION) $(COMMIT)" ] || echo $(VERSION) $(COMMIT) >$@; }

dist/plexus: $(SHIM_SOURCES) dist/.version
	$(MAKE) -B -C shim OUT=../dist/plexus VERSION=$(VERSION) COMMIT=$(COMMIT)

dist/plexusd.js dist/plexusctl.js &: $(TS_SOURCES) scripts/bundle.ts package-lock.json dist/.version
	node scripts/bundle.ts --version $(VERSION) --commit $(COMMIT)

dist/plexus-standalone: $(TS_SOURCES) scripts/bundle.ts package-lock.json dist/.version
	node scripts/bundle.ts --standalone --version $(VERSION) --commit $(COMMIT)

demo: build ## attach two pods to three networks, in a separate network namespace
	@scripts/system-deps.sh demo
	@scripts/demo.sh

lint: deps ## check style, structure, English, types, and that nothing is unused
	biome check .
	node scripts/prose.ts
	knip
	knip --production --tags=-internal
	node scripts/conformance.ts --check
	tsc -p .

# FLAVOUR=standalone: no plexusd runs, and the compiled plexus-standalone serves every call (test, conformance, chaos,
# powerloss). FILES: only these of the tests that this concerns.
# LINGER_MS: how long it stays after its calls.
export FLAVOUR ?= daemon

test: build deps-test $(if $(filter standalone,$(FLAVOUR)),,lint) ## lint, types, unit tests, the shim, real plugins in namespaces; FLAVOUR=standalone: the latter without plexusd
ifeq ($(FLAVOUR),standalone)
	@echo "Not part of this run, as they need plexusd:" && grep -rno 'needsPlexusd(".*"' e2e/netns e2e/conformance
	vitest run --project netns $(FILES)
else
	$(MAKE) -C shim unit lint ../dist/plexus-asan
	vitest run --project unit --project shim --project netns
endif

# SUITE=npwg: WRITE=1 updates docs/reference/conformance-npwg.md, with which the results are compared.
conformance: build ## an independent runtime, cnitool, drives Plexus in every CNI version; SUITE=npwg: the multi-network standard, Plexus and Multus (needs Go)
	@scripts/system-deps.sh cluster
ifeq ($(SUITE),npwg)
	node e2e/npwg-results/main.ts $(if $(WRITE),--write)
else
	vitest run --project conformance $(if $(filter standalone,$(FLAVOUR)),$(or $(FILES),e2e/conformance))
endif

# Two at a time, because each keeps a processor busy. SEED=1: the same inputs each time.
fuzz: deps-test ## fuzz every reader of external input for a minute each; HOURS=1 for an hour
	$(MAKE) -j2 -Otarget $(addprefix fuzz-,$(FUZZ_TARGETS))

fuzz-shim-%:
	$(MAKE) -C shim fuzz-$* FUZZ_SECONDS=$(FUZZ_SECONDS)

fuzz-%:
	node e2e/fuzz/main.ts $* --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED))

# What the test clusters have. Tests take these from the environment.
cluster e2e: export PLEXUS_E2E_RUNTIME ?= $(RUNTIME)
cluster e2e: export PLEXUS_E2E_KUBERNETES ?= $(KUBERNETES)
cluster e2e: export PLEXUS_E2E_CONTAINERD ?= $(CONTAINERD)

# NODES: one if not given. The first run builds Kubernetes, for ten minutes.
cluster: $(if $(DOWN),,image) ## start a Kubernetes cluster on this machine, load the image, and print how to use it (Debian, root); DOWN=1: stop it
ifdef DOWN
	@node e2e/cluster/main.ts down
else
	@scripts/system-deps.sh cluster
	@node e2e/cluster/main.ts up $(if $(NODES),--nodes $(NODES)) dist/plexus-image.tar
endif

e2e: ## a real cluster: etcd, kube-apiserver, kubelet, containerd; SUITE=versions, migration, primary, policies, injector, critest, containerd, whereabouts, multus, crio, clients, docker, sriov, arm64, release, admission, scale: docs/developing.md
ifeq ($(SUITE),)
# RUNTIME, KUBERNETES and CONTAINERD select what the cluster has: e2e/cluster/README.md. KUBECONFIG=…: your cluster.
# FILES: these of e2e/cluster. PLEXUS_E2E_SCENARIOS=fixed: two of the overlays of distributions.
e2e: image
	@[ -n "$${KUBECONFIG:-}" ] || { scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare; }
	vitest run --project cluster $(or $(FILES),$(if $(KUBECONFIG),e2e/cluster/scenarios))
else ifeq ($(SUITE),versions)
# The scenarios that depend on releases, with older ones: patch releases whose modules are all in Go's module proxy. The first run builds all of them, each Kubernetes in about ten minutes.
# RELEASES=1.30.14/1.6.38: this pair.
RELEASES = 1.30.14/1.6.38 1.31.4/1.7.36 1.32.6/1.7.36 1.33.13/2.0.14 1.34.10/2.2.9 1.35.8/2.2.9
e2e: image
	@scripts/system-deps.sh cluster
	for pair in $(RELEASES); do \
		export PLEXUS_E2E_KUBERNETES=$${pair%/*} PLEXUS_E2E_CONTAINERD=$${pair#*/}; \
		echo "Kubernetes $$PLEXUS_E2E_KUBERNETES with containerd $$PLEXUS_E2E_CONTAINERD"; \
		node e2e/cluster/main.ts prepare; \
		PLEXUS_E2E_SCENARIOS=releases vitest run --project cluster e2e/cluster/scenarios/*.test.ts; \
		vitest run --project admission; \
	done
else ifeq ($(SUITE),migration)
# docs/user/migration.md, there and back: thin and thick Multus, each with kubectl and with Helm, in under ten minutes.
# Without SUITE, each form and each installer once.
e2e: image
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	PLEXUS_E2E_MIGRATION=all vitest run --project cluster e2e/cluster/scenarios/pages/migration.test.ts
else ifeq ($(SUITE),primary)
# Over the agent of another project's primary CNI, on two nodes: PRIMARY=flannel or calico. The first run builds it, after
# Kubernetes.
e2e: image
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	PRIMARY=$(PRIMARY) vitest run --project primary
else ifeq ($(SUITE),policies)
# An enforcer of network policies that reads network-status once: its own cases with Multus, then with Plexus and an API
# server that is 0.5, 1 and 4 s late. SUITE_SRC: a clone of multi-networkpolicy-nftables. CASES: those whose names contain
# it (simple-v4).
e2e: image
	@[ -n "$(SUITE_SRC)" ] || { echo "SUITE_SRC must name a clone of multi-networkpolicy-nftables" >&2; exit 2; }
	@scripts/system-deps.sh cluster && scripts/system-deps.sh policies && node e2e/cluster/main.ts prepare
	SUITE_SRC=$(abspath $(SUITE_SRC)) CASES=$(CASES) vitest run --project suites e2e/suites/policies
else ifneq ($(filter injector critest containerd whereabouts multus,$(SUITE)),)
# Tests of other projects, with Plexus, with Multus, and mostly with the primary network alone: docs/reference/suites.md.
# WITH=Plexus: only with this one (Multus, alone).
e2e: image
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	@$(if $(filter multus,$(SUITE)),scripts/system-deps.sh policies)
	WITH=$(WITH) vitest run --project suites e2e/suites/$(SUITE)
else ifneq ($(filter crio clients,$(SUITE)),)
# crio: CRI-O, called as the kubelet calls it; the first run builds it. clients: nerdctl and cnitool without
# Kubernetes. Both need Go.
e2e: build
	@scripts/system-deps.sh cluster
	vitest run --project $(SUITE)
else ifeq ($(SUITE),docker)
# Containers of two releases of Docker Engine on Plexus networks, in separate namespaces; and the Dockerfile, with PLUGINS=1
# also the reference plugins.
e2e: build
	@scripts/system-deps.sh docker && scripts/system-deps.sh fresh
	node scripts/docker.ts --plugin
	vitest run --project docker
else ifeq ($(SUITE),sriov)
# Real virtual functions, and links that this kernel lacks, in a virtual machine (Debian, amd64, needs Go). TEST: one test
# by its name. The kernel and QEMU are Debian packages, unpacked into the cache the first time.
e2e: build deps-test
	node e2e/sriov/main.ts $(if $(TEST),-t "$(TEST)")
else ifeq ($(SUITE),arm64)
# The shim's tests, and Plexus with real plugins, on arm64 in a virtual machine (Debian, amd64). FILES: other tests of
# e2e/netns. It uses the packages of arm64 of Debian and npm, unpacked into the cache the first time.
e2e: build
	node e2e/arm64/main.ts $(FILES)
else ifeq ($(SUITE),release)
# The chart against kustomize, the files of a release and their publication in a registry on loopback, the site, the
# workflows of .github, the alerts, the systemd unit.
e2e: image release
	@scripts/system-deps.sh release
	vitest run --project release
else ifeq ($(SUITE),admission)
# The optional ValidatingAdmissionPolicies at a real API server: what they deny and what they accept, and their time.
e2e: deps
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	vitest run --project admission
else ifeq ($(SUITE),scale)
# NODES (250) with plexusd's API adapter and PODS (8) each, without kubelets, at a real API server: requests, also those
# of Multus, a storm of statuses, a restart, a slow API server; and the uninstallation of 5,000 nodes at the tests' API
# server. WRITE=1 updates docs/operations/large-clusters.md.
e2e: deps
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	node e2e/scale/main.ts $(if $(NODES),--nodes $(NODES)) $(if $(PODS),--pods $(PODS)) $(if $(WRITE),--write)
	vitest run --project unit src/cli/node/uninstall-cluster.test.ts
else
e2e:
	$(error SUITE=$(SUITE): `make help` lists the suites)
endif

# DEBIAN: only this release (bookworm, trixie). RUN: other targets. WORKFLOW=ci.yml JOB=lint: the steps of this job instead,
# with MATRIX this value of its matrix.
# The first run builds the root file systems.
fresh: deps ## the README's commands on a fresh Debian: demo, image and chart on 12 and 13, the tests on 13 (DEBIAN=trixie, RUN=demo)
	@scripts/system-deps.sh fresh
	node e2e/fresh/main.ts $(if $(DEBIAN),--suite $(DEBIAN)) $(if $(RUN),--run "$(RUN)") $(if $(JOB),--workflow "$(WORKFLOW)" --job "$(JOB)" $(if $(MATRIX),--matrix "$(MATRIX)") $(if $(UNTIL),--until "$(UNTIL)"))

# RUNS random runs of SEED, or one SCENARIO. FIXED=1: the fixed runs, and the proofs that they find faults.
chaos: build deps-test ## inject a fault at every step, then compare the node with its state before (docs/operations/reliability.md)
ifdef FIXED
	vitest run --project chaos $(if $(filter standalone,$(FLAVOUR)),$(or $(FILES),e2e/chaos/matrix.test.ts e2e/powerloss))
else
	node e2e/chaos/main.ts $(if $(SCENARIO),--scenario "$(SCENARIO)") $(if $(SEED),--seed "$(SEED)") \
		$(if $(RUNS),--runs $(RUNS)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(WRITE),--write)
endif

powerloss: build deps-test ## lose power after every operation on the disk, then recover (docs/operations/reliability.md)
	node e2e/powerloss/main.ts $(if $(STORY),--story "$(STORY)") $(if $(WRITE),--write)

# A minute of new seeds, or HOURS, or HISTORIES from SEED. PRINT=1: one history. MUTATIONS=1: each safeguard taken out,
# with ONLY=TEXT those whose names contain it.
simulate: deps ## run Plexus in simulated histories with faults (docs/lab/simulation.md)
	node e2e/simulation/main.ts $(if $(SEED),--seed $(SEED)) $(if $(MUTATIONS),--mutations $(if $(ONLY),--only "$(ONLY)"),$(if $(PRINT),--print --without "$(WITHOUT)", \
		$(if $(HISTORIES),--histories $(HISTORIES),--seconds $(if $(HOURS),$(shell expr $(HOURS) \* 3600),60))))

# FILES: globs of files (src/npwg/**,shim/rules.c). WRITE=1 updates docs/lab/mutations.md.
mutate: build deps-test ## break the product in thousands of places, and count what the tests find (docs/lab/mutations.md)
	node e2e/mutation/main.ts $(if $(FILES),--files "$(FILES)") $(if $(WRITE),--write)

soak: build deps-test ## attach and detach thousands of pods, half with faults; growth is a failure (docs/operations/reliability.md)
	node e2e/soak/main.ts $(if $(CYCLES),--cycles $(CYCLES)) $(if $(SEED),--seed "$(SEED)")

# CASE=pods: how long containerd takes to start and stop a pod's sandbox, without and with Plexus. CASE=hot-plug: the time
# from an edit of a running pod's annotation to its network-status.
bench: build $(if $(filter hot-plug,$(CASE)),deps-test) ## measure Plexus against the delegates alone and Multus; QUICK=1: a few minutes (BENCH_PEERS=none: no Multus); CASE=pods, hot-plug
ifeq ($(CASE),)
	@scripts/system-deps.sh bench || echo "continuing: the results name what is missing"
	node bench/main.ts
else ifeq ($(CASE),pods)
	node bench/pods/main.ts
else ifeq ($(CASE),hot-plug)
	node bench/hot-plug/main.ts $(if $(WRITE),--write)
else
	$(error CASE=$(CASE): `make help` lists the cases)
endif

# The site's packages, 300 MB, have their own lock: nothing else needs them.
docs: $(if $(SITE),node_modules/.package-lock.json docs/.vitepress/node_modules/.package-lock.json,$(if $(DASHBOARD)$(TOUR),image,$(if $(DEMO),build,deps))) ## regenerate the generated pages; REPOSITORY=URL: set the repository that all files name; DEMO=1: the picture of `make demo`; DASHBOARD=1, TOUR=1: the picture of the Grafana dashboard, or the tour, from a test cluster; SITE=/: build the site for this path into dist/site
ifdef SITE
	SITE="$(SITE)" npm --prefix docs/.vitepress run build
else ifdef DEMO
	@scripts/system-deps.sh demo
	scripts/demo.sh | node scripts/demo/write-svg.ts
else ifdef DASHBOARD
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	PLEXUS_DASHBOARD=docs/operations/dashboard.svg vitest run --project cluster e2e/cluster/scenarios -t "a Prometheus"
else ifdef TOUR
	@scripts/system-deps.sh cluster && node e2e/cluster/main.ts prepare
	PLEXUS_TOUR=write vitest run --project cluster e2e/cluster/scenarios/pages/tour.test.ts
else
	node scripts/conformance.ts
	node scripts/docs.ts $(if $(REPOSITORY),--repository "$(REPOSITORY)")
	node scripts/chart-schema.ts
endif

docs/.vitepress/node_modules/.package-lock.json: docs/.vitepress/package.json docs/.vitepress/package-lock.json
	npm ci --prefix docs/.vitepress --no-audit --no-fund --loglevel=error
	@touch $@

# ROOTFS: write the root file system to this directory instead, as the Dockerfile does.
image: build $(if $(PLUGINS),dist/plugins) ## build the container image from local files; STANDALONE=1 includes plexus-standalone, PLUGINS=1 the CNI reference plugins (needs Go)
	node scripts/image.ts --version $(VERSION) --commit $(COMMIT) $(if $(STANDALONE),--standalone) $(if $(PLUGINS),--plugins) $(if $(ROOTFS),--rootfs "$(ROOTFS)")

dist/plugins: scripts/image/reference-plugins.sh
	@scripts/system-deps.sh plugins
	$< $@

kind: ## install Plexus with the CNI reference plugins on the kind cluster NAME (plexus), and create it if there is none (needs kind, kubectl, Go)
	$(MAKE) image PLUGINS=1
	scripts/kind.sh $(or $(NAME),plexus)

docker: build ## pack the network driver for Docker with its systemd unit (docs/user/docker.md); PLUGIN=1: as a managed plugin, for `docker plugin create`
	@$(if $(PLUGIN),scripts/system-deps.sh docker)
	node scripts/docker.ts $(if $(PLUGIN),--plugin)

chart: ## write the Helm chart with copies in place of its links into dist/chart, for `helm install plexus dist/chart`
	@rm -rf dist/chart && mkdir -p dist && cp -rL deploy/chart dist/chart && cp LICENSE NOTICE dist/chart

# DIGESTS: those of the images whose tags have a suffix, such as -standalone=sha256:…
release: build dist/plugins ## build the files of a release into dist/release (IMAGE=…: for that image; REPOSITORY=URL; needs Go)
	node scripts/release.ts --version $(VERSION) $(if $(IMAGE),--image "$(IMAGE)") \
		$(foreach digest,$(DIGESTS),--digest="$(digest)") $(if $(REPOSITORY),--repository "$(REPOSITORY)")

clean: ## remove what was built
	rm -rf dist
	$(MAKE) -C shim clean
