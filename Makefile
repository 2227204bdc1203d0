# Copyright The Stowage Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

comma := ,

# Build with the Go that is installed; never fetch another one behind the user's back.
export GOTOOLCHAIN := local

# The minors of Kubernetes that the scheduler is built for. That of go.mod is the last one; the others have a module
# file, go-1.36.mod. Commands that do not contain the scheduler are one build for all.
KUBES := $(sort $(patsubst pkg/kubecompat/%/go.mod,%,$(wildcard pkg/kubecompat/*/go.mod)))
ASKED := $(KUBE)
override KUBE := $(or $(KUBE),$(lastword $(KUBES)))
ifneq ($(words $(KUBE)) $(filter $(KUBE),$(KUBES)),1 $(KUBE))
$(error KUBE=$(KUBE): the scheduler is built for Kubernetes $(subst $() ,$(comma) ,$(KUBES)))
endif
MODFILE := $(if $(filter-out $(lastword $(KUBES)),$(KUBE)),-modfile=go-$(KUBE).mod)
ifneq ($(and $(MODFILE),$(filter bench-scheduler-perf,$(MAKECMDGOALS))),)
$(error KUBE=$(KUBE): bench-scheduler-perf contains scheduler_perf of Kubernetes $(lastword $(KUBES)), and works with no other)
endif
# Which control plane tests run.
export STOWAGE_KUBE := $(KUBE)
# Of a binary: is it the scheduler, the module file that it is built by, and its version.
is-scheduler = $(filter scheduler,$(patsubst stowage-%,%,$(notdir $1)))
modfile = $(if $(is-scheduler),$(MODFILE))
version = $(VERSION)$(if $(is-scheduler),-kube$(KUBE))

# Stamped into the binaries: our version, and the one of Kubernetes that they contain, which
# clients and metrics show.
VERSION ?= $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo unknown)
kube-version = $(shell go list $(modfile) -m -f '{{.Version}}' k8s.io/kubernetes)
ldflags = -s -w -X stowage.dev/stowage/pkg/server/command.version=$(version) $(call stamp,$(kube-version))
stamp = -X k8s.io/component-base/version.gitVersion=$1 \
  -X k8s.io/component-base/version.gitMajor=$(word 1,$(subst ., ,$(1:v%=%))) \
  -X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$1))

RUN      ?=
PACKAGES ?= ./test/...
COUNT    ?=
TIMEOUT  ?= 45m
FUZZ     ?=
FUZZTIME ?= 20s
BENCH    ?= .
KEEP     ?=
WORKLOADS ?=
ROUNDS   ?=
ONLY     ?=
DISKS    ?=
TAG      ?= dev
BASE     ?=
PUSH     ?=
ARCHIVES ?= bin/images
SBOMS    ?= bin/sbom
PLATFORMS ?= linux/$(shell go env GOARCH)
SUITE    ?=
DOWNLOADS ?=
REGISTRY ?= stowage.dev

# Packages with unit tests: of test/, those that need no control plane; for another minor than that of go.mod, what the
# scheduler contains.
UNIT := ./test/await ./test/deadline ./test/requirements $(addprefix ./test/perf/,figures page parts source)
UNIT_TESTS = $(if $(MODFILE),$(shell go list $(MODFILE) -deps ./cmd/scheduler | grep ^stowage.dev/),./pkg/... ./cmd/... ./hack/... stowage.dev/kubecompat/... $(UNIT))

# Commands are found, not listed: cmd/scheduler makes bin/stowage-scheduler, cmd/kubectl-x makes bin/kubectl-x.
COMMANDS := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))
BINARIES := $(foreach c,$(COMMANDS),bin/$(if $(filter kubectl-%,$(c)),$(c),stowage-$(c)))

# A command is an image, unless it is a plugin of kubectl. Images have binaries of their own, by platform, without
# what Go stamps from git: so they are the same from a checkout, from a tarball and in the Dockerfile.
IMAGES   ?= $(addprefix stowage-,$(filter-out kubectl-%,$(COMMANDS)))
IMAGE_BINARIES = $(foreach p,$(subst $(comma), ,$(PLATFORMS)),$(addprefix bin/$(subst /,-,$(p))/,$(IMAGES)))
# The commit, and when it was made, which is the time of all that is in an image.
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# The plugin of kubectl, for the machines of users.
PLUGIN_PLATFORMS := $(foreach system,linux darwin windows,$(addprefix $(system)-,amd64 arm64))
PLUGIN_BINARIES = $(foreach p,$(PLUGIN_PLATFORMS),bin/plugin/$(p)/kubectl-stowage$(if $(filter windows-%,$(p)),.exe))

# Go prints nothing while it compiles, which takes minutes on a fresh machine.
PROGRESS := hack/progress.sh
# Most compilers end before it is worth collecting their garbage: without that, large packages take a seventh less time.
GO_BUILD := GOGC=$(or $(GOGC),off) GOMEMLIMIT=$(or $(GOMEMLIMIT),512MiB) go build -v
# Prints a line for each package, or with TESTS for each test, from the events of go test -json.
REPORT   = gotestsum=$$(hack/tools/install.sh gotest.tools/gotestsum) && "$$gotestsum" --raw-command --format-hide-empty-pkg --hide-summary=skipped --format=pkgname-and-test-fails -- cat
TESTS    = $(subst pkgname-and-test-fails,testname,$(REPORT))
# What a target took beside its budgets (hack/budgets), also when it failed.
EVENTS    = bin/events/$@.json
BUDGETS   = || failed=$$?; go run ./hack/budgets $(EVENTS); exit $${failed:-0}
# What limits tests from outside is multiplied by STOWAGE_TEST_SLOW, as all their waits are.
STRETCH  := go run ./hack/stretch

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET [VARIABLE=value]" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: $(BINARIES) ## Build every command of cmd/ into bin/, statically linked; KUBE=1.36: the scheduler for that Kubernetes

.PHONY: $(BINARIES)
$(BINARIES): bin/%: # Go knows whether it is up to date
	@echo "building $@ $(call version,$@)"
	@CGO_ENABLED=0 $(GO_BUILD) $(call modfile,$@) -trimpath -ldflags '$(call ldflags,$@)' -o $@ ./cmd/$(patsubst stowage-%,%,$*) 2>&1 | $(PROGRESS)
	@$(foreach f,$(wildcard cmd/$*/kubectl_complete-$(*:kubectl-%=%)),install -m 0755 $(f) bin/)

.PHONY: plugin
plugin: $(PLUGIN_BINARIES) bin/tools/release ## The kubectl plugin for all platforms as archives in bin/plugin/, and a manifest for krew; DOWNLOADS=URL
	@bin/tools/release plugin -version='$(VERSION)' -created='$(SOURCE_DATE_EPOCH)' -downloads='$(DOWNLOADS)' $(PLUGIN_PLATFORMS)

.PHONY: $(PLUGIN_BINARIES)
$(PLUGIN_BINARIES):
	@echo "building $@ $(VERSION)"
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$(notdir $(@D)))) GOARCH=$(word 2,$(subst -, ,$(notdir $(@D)))) \
	  go build -v -trimpath -buildvcs=false -ldflags '$(call ldflags,$@)' -o $@ ./cmd/kubectl-stowage 2>&1 | $(PROGRESS)

.PHONY: images
images: $(IMAGE_BINARIES) bin/tools/images ## Container images as archives in bin/images/; KUBE=1.36 PLATFORMS=a,b TAG=dev BASE=image PUSH=registry/prefix
	@bin/tools/images write -platforms='$(PLATFORMS)' -registry='$(REGISTRY)' -tag='$(TAG)' -base='$(BASE)' -push='$(PUSH)' -out='$(ARCHIVES)' \
	  -version='$(VERSION)' -revision='$(REVISION)' -created='$(SOURCE_DATE_EPOCH)' $(IMAGES)

.PHONY: push
push: bin/tools/images ## Push archives of images, under the tags that they have; ARCHIVES=folder PUSH=registry/prefix
	@bin/tools/images push -to='$(PUSH)' $(ARCHIVES)/*.tar

.PHONY: sbom
sbom: $(IMAGE_BINARIES) bin/tools/images ## What each image's binary is made of, as SPDX documents in bin/sbom/; PLATFORMS=a,b
	@bin/tools/images sbom -platforms='$(PLATFORMS)' -out='$(SBOMS)' -version='$(VERSION)' -created='$(SOURCE_DATE_EPOCH)' $(IMAGES)

.PHONY: $(IMAGE_BINARIES)
$(IMAGE_BINARIES):
	$(if $(filter $(notdir $(@D)),linux-amd64 linux-arm64 linux-ppc64le linux-s390x),,$(error PLATFORMS=$(PLATFORMS): each must be linux/amd64, linux/arm64, linux/ppc64le or linux/s390x))
	@echo "building $@ $(call version,$@)"
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$(notdir $(@D)))) GOARCH=$(word 2,$(subst -, ,$(notdir $(@D)))) \
	  $(GO_BUILD) $(call modfile,$@) -trimpath -buildvcs=false -ldflags '$(call ldflags,$@)' -o $@ ./cmd/$(patsubst stowage-%,%,$(@F)) 2>&1 | $(PROGRESS)

.PHONY: bin/tools/images bin/tools/release
bin/tools/images bin/tools/release: bin/tools/%:
	@go -C hack/release build -v -o '$(CURDIR)/$@' $(if $(filter images,$*),./images,.) 2>&1 | $(PROGRESS)

# A release is for two platforms and all minors; PLATFORMS, KUBE and PLUGIN_PLATFORMS make a smaller one, for a trial. It is built
# from the commit, whatever vendor/ and the environment have.
PARTS := bin/release/parts
release: override PLATFORMS := $(if $(filter file,$(origin PLATFORMS)),linux/amd64$(comma)linux/arm64,$(PLATFORMS))
release: export GOFLAGS := -mod=readonly
release: export REVISION = $(shell git rev-parse HEAD)
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)

.PHONY: release
release: bin/tools/release ## All files of a release, reproducibly, in bin/release/VERSION; VERSION=v0.1.0 REGISTRY=registry/prefix DOWNLOADS=URL
	@bin/tools/release check -version='$(VERSION)'
	@PLATFORMS='$(PLATFORMS)' hack/release-parts.sh $(PARTS) '$(VERSION)' '$(filter-out stowage-scheduler,$(IMAGES))' $(or $(ASKED),$(KUBES))
	@$(MAKE) $(PLUGIN_BINARIES)
	@bin/tools/images sbom -bin=bin/plugin -platforms='$(subst $() ,$(comma),$(subst -,/,$(PLUGIN_PLATFORMS)))' -out=$(PARTS) \
	  -version='$(VERSION)' -created="$$SOURCE_DATE_EPOCH" kubectl-stowage
	@helm=$$(hack/tools/install.sh helm.sh/helm/v4/cmd/helm) && kustomize=$$(hack/tools/install.sh sigs.k8s.io/kustomize/kustomize/v5) && \
	  bin/tools/release pack -version='$(VERSION)' -revision="$$REVISION" -created="$$SOURCE_DATE_EPOCH" -registry='$(REGISTRY)' \
	  -downloads='$(DOWNLOADS)' -helm="$$helm" -kustomize="$$kustomize" -out='bin/release/$(VERSION)' $(PLUGIN_PLATFORMS)

# What the demo runs is built with it, in one run of Go; the control plane is built by the demo.
DEMO = $(addprefix ./,hack/demo $(if $(MODFILE),,cmd/scheduler) cmd/provisioner cmd/kubectl-stowage)
# Without inlining and debug information, packages compile in three quarters of the time (docs/demo.md). Where a large one
# is compiled already, as by the tests, so are most others, and they are used.
DEMO_FLAGS = $(if $(filter true,$(shell go list -f '{{.Stale}}' k8s.io/client-go/kubernetes)),-gcflags='all=-l -dwarf=false')

.PHONY: demo
demo: ## Schedule stateful pods on a real control plane; KEEP=1 leaves it running
	@$(eval flags := $(DEMO_FLAGS))$(if $(MODFILE),$(GO_BUILD) $(MODFILE) $(flags) -o bin/demo/ ./cmd/scheduler 2>&1 | $(PROGRESS))
	@$(GO_BUILD) -buildvcs=false $(flags) -o bin/demo/ $(DEMO) 2>&1 | $(PROGRESS) $(flags) $(DEMO)
	@KEEP=$(KEEP) bin/demo/demo $(flags)

##@ Test

.PHONY: test
test: test-unit test-integration ## Everything: unit tests, fuzz seeds, integration tests

# Tests of hack/release read files outside of their module, whose changes Go does not see when it caches results.
.PHONY: test-unit
test-unit: ## Unit tests and fuzz seeds; RUN=regexp COUNT=n KUBE=1.36
	@go build $(MODFILE) -v $(if $(MODFILE),$(UNIT_TESTS),./pkg/...) 2>&1 | $(PROGRESS)
	@mkdir -p bin/events; timeout=$$($(STRETCH) 10m) && \
	  go test $(MODFILE) -json -timeout=$$timeout $(if $(COUNT),-count=$(COUNT)) -run='$(RUN)' $(UNIT_TESTS) | tee $(EVENTS) | { $(REPORT); } $(BUDGETS)
	@$(if $(MODFILE),$(MAKE) vet-minor,go -C hack/release test -count=1 ./... && go -C hack/monitoring test ./...)

# The kubectl plugin contains the scheduler of the last minor, so its tests work with no other.
LAST_MINOR_ONLY := /test/\(integration/\(inspect\|live\|page\)\|perf/frames\|ui\)$$

.PHONY: vet-minor
vet-minor: ## Compile the integration tests for another minor; KUBE=1.36
	@go vet $(MODFILE) $$(go list ./test/integration/... ./test/cluster/... | grep -v '$(LAST_MINOR_ONLY)') stowage.dev/kubecompat/...

.PHONY: test-race
test-race: ## Unit tests under the race detector (needs a C compiler); RUN=regexp COUNT=n
	@command -v "$$(go env CC)" >/dev/null || { echo "the race detector needs a C compiler: install gcc or clang" >&2; exit 1; }
	@timeout=$$($(STRETCH) 20m) && \
	  CGO_ENABLED=1 go test -json -race -timeout=$$timeout $(if $(COUNT),-count=$(COUNT)) -run='$(RUN)' ./pkg/... ./cmd/... ./hack/... | { $(REPORT); }

.PHONY: test-fuzz
test-fuzz: ## Every Fuzz function in turn; FUZZTIME=20s each, FUZZ=regexp
	@FUZZTIME=$(FUZZTIME) FUZZ='$(FUZZ)' hack/fuzz.sh pkg cmd

# Tests of clusters and disks mostly wait, so two packages run at the same time. Benchmarks measure, so they run alone.
.PHONY: test-integration
test-integration: control-plane ## Tests against a real control plane; RUN=regexp PACKAGES=./test/... COUNT=n TIMEOUT=45m KUBE=1.36
	@mkdir -p bin/events; timeout=$$($(STRETCH) $(TIMEOUT)); \
	all=$$(go list $(PACKAGES) | grep -v '/test/e2e$(if $(MODFILE),\|$(LAST_MINOR_ONLY))' | grep -vxF "$$(go list $(UNIT))") || { echo 'PACKAGES=$(PACKAGES): must have integration tests, as ./test/... has' >&2; exit 1; }; \
	gotest() { local packages; packages=$$(grep "$$@" <<<"$$all") || return 0; \
	  go test $(MODFILE) -json -p=$${p:-1} -timeout=$$timeout -count=$(or $(COUNT),1) -run='$(RUN)' $$packages || failed=$$?; }; \
	{ p=2 gotest -v /test/perf/; KUBE_CACHE_MUTATION_DETECTOR=true gotest /test/perf/; \
	  $(if $(MODFILE),,STOWAGE_PV_BINDER=InPlace gotest '/test/integration/scheduling$$';) exit $${failed:-0}; } | tee $(EVENTS) | { $(TESTS); } $(BUDGETS)

.PHONY: screenshots
screenshots: control-plane ## Screenshots of the page of kubectl stowage ui for docs/images (needs chromium)
	@go run ./hack/requirements browser
	@STOWAGE_SCREENSHOTS=$(CURDIR)/docs/images go test -count=1 -run=TestSizes ./test/integration/page

.PHONY: e2e
e2e: ## Tests on real kubelets and containerd (root, Debian packages); RUN=regexp COUNT=n TIMEOUT=45m KUBE=1.36
	@go run ./hack/requirements e2e
	@mkdir -p bin/events; timeout=$$($(STRETCH) $(TIMEOUT)) && $(MAKE) control-plane images && bin/tools/cluster build -real && \
	  go test $(MODFILE) -json -p=1 -parallel=4 -timeout=$$timeout -count=$(or $(COUNT),1) -run='$(RUN)' ./test/e2e/... | tee $(EVENTS) | { $(TESTS); } $(BUDGETS)

.PHONY: matrix
matrix: ## All suites on all minors, 2 hours, recorded in docs/compatibility.md; KUBE=1.36 SUITE=test-integration: one of them
	@go build -v -o bin/tools/matrix ./hack/matrix 2>&1 | $(PROGRESS)
	@bin/tools/matrix -kube='$(ASKED)' -suite='$(SUITE)'

.PHONY: soak
soak: control-plane ## The long campaigns in full strength, an hour or more; RUN=regexp TIMEOUT=45m for each: docs/soak.md
	@if hack/soak.sh -list '$(RUN)' | grep -q '^test/e2e'; then \
	  go run ./hack/requirements e2e && $(MAKE) images && bin/tools/cluster build -real; fi
	@TIMEOUT=$$($(STRETCH) $(TIMEOUT)) hack/soak.sh '$(RUN)'

##@ Measure

.PHONY: bench
bench: control-plane ## Everything in docs/benchmarks.md, which takes hours; WORKLOADS=a,b ROUNDS=n CALLS=n: some whole clusters only
	@go build -v -o bin/tools/bench ./test/perf/bench 2>&1 | $(PROGRESS)
	@bin/tools/bench -out docs/benchmarks/clusters.txt -only='$(WORKLOADS)' -rounds=$(or $(ROUNDS),0) -calls=$(or $(CALLS),0)
	@$(if $(WORKLOADS),,$(MAKE) bench-local bench-staging bench-plugin bench-scheduler-perf)

.PHONY: bench-quick
bench-quick: control-plane ## A small set of the same, within 10 minutes; stores nothing
	@go build -v -o bin/tools/bench ./test/perf/bench 2>&1 | $(PROGRESS)
	@bin/tools/bench -quick -rounds=$(or $(ROUNDS),0)

.PHONY: bench-local
bench-local: control-plane ## The provisioner on real disks (root); ONLY=latency,resting,wiping,watching,controller,listing DISKS=n NODES=n ROUNDS=n
	@go build -v -o bin/tools/local ./test/perf/local 2>&1 | $(PROGRESS)
	@bin/tools/local -out docs/benchmarks/provisioner.txt -only='$(ONLY)' -disks=$(or $(DISKS),0) -nodes=$(or $(NODES),0) -rounds=$(or $(ROUNDS),0)

.PHONY: bench-staging
bench-staging: control-plane images ## Volumes of PavProvisioners on real kubelets (root); ONLY=start,move,many PODS=n VOLUMES=n
	@go build -v -o bin/tools/staging ./test/perf/staging 2>&1 | $(PROGRESS)
	@cd test/perf && ../../bin/tools/staging -out ../../docs/benchmarks/staging.txt -only='$(ONLY)' -pods=$(or $(PODS),0) -volumes=$(or $(VOLUMES),0)

.PHONY: bench-plugin
bench-plugin: ## The plugin on up to 65,000 nodes without an API server; ONLY=1000,65000 PODS=n
	@go build -v -o bin/tools/loadmodel ./test/perf/loadmodel 2>&1 | $(PROGRESS)
	@bin/tools/loadmodel -out docs/benchmarks/plugin.txt -only='$(ONLY)' -pods=$(or $(PODS),0)

.PHONY: bench-scheduler-perf
bench-scheduler-perf: control-plane ## Upstream's scheduler_perf, Stowage against stock; ONLY=a,b ROUNDS=n
	@go build -v -o bin/tools/schedulerperf ./test/perf/schedulerperf 2>&1 | $(PROGRESS)
	@bin/tools/schedulerperf -out docs/benchmarks/scheduler-perf.txt -only='$(ONLY)' -rounds=$(or $(ROUNDS),0)

.PHONY: bench-page
bench-page: ## The tables of docs/benchmarks.md, from the stored results
	@go run ./test/perf/bench -page

.PHONY: bench-guard
bench-guard: ## Has speed fallen back? Ratios only, so any machine will do
	@timeout=$$($(STRETCH) 10m) && go test -v -count=1 -timeout=$$timeout ./test/perf/guard

.PHONY: bench-micro
bench-micro: ## Micro-benchmarks; BENCH=regexp COUNT=n
	@go test -run='^$$' -bench='$(BENCH)' -benchmem $(if $(COUNT),-count=$(COUNT)) -timeout=60m ./pkg/...

# Compiles into the user's cache folder; minutes the first time, an instant afterwards.
.PHONY: control-plane
control-plane:
	@$(GO_BUILD) -o bin/tools/cluster ./hack/cluster 2>&1 | $(PROGRESS) ./hack/cluster
	@bin/tools/cluster build

##@ Keep in order

.PHONY: lint
lint: ## golangci-lint, pinned in hack/tools, and go vet
	@hack/lint.sh

.PHONY: verify
verify: ## Formatted, generated, vetted, layers kept, tree unchanged
	@hack/verify.sh

.PHONY: update
update: ## Repair what verify complains about: format, generated code, go.mod files
	@for script in hack/update-*.sh; do echo "$$script"; "$$script"; done

.PHONY: vendor
vendor: ## Copy dependencies into vendor/ for builds without a network; KUBE=1.36
	go mod vendor $(MODFILE)

.PHONY: clean
clean: ## Remove bin/, vendor/ and test artifacts
	rm -rf bin vendor _artifacts
