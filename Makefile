# Everything is a Go command; this file only remembers the long ones.

GO ?= go
export CGO_ENABLED ?= 0

.PHONY: all build test test-all bench journal lint race fuzz soak deps conformance deploy-test release-check site

all: build

build:
	$(GO) build -trimpath -ldflags '-s -w' -o . ./cmd/ceiling ./cmd/ceiling-proxy ./cmd/ceiling-lab ./cmd/ceiling-controller

# test needs Go alone: what takes root, third-party programs or a quiet machine is skipped, and
# counted by need in its last lines.
test:
	$(GO) run ./internal/suite -short -vet=off ./...

# test-all installs what the other tests need where it is missing (Debian, as root), and runs
# everything: plants, races, browsers, deployments.
test-all: deps lint
	./.ci/test
	./.ci/deploy
	./.ci/conformance h2spec

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "gofmt: the files above"; exit 1; }
	$(GO) vet ./...
	cd internal/tools && $(GO) build -o ../../bin/ honnef.co/go/tools/cmd/staticcheck golang.org/x/tools/cmd/deadcode
	./bin/staticcheck ./...
	@dead=$$(./bin/deadcode -test=false ./cmd/...) && test -z "$$dead" || { echo "$$dead"; echo "deadcode: only tests call the functions above, or nothing does"; exit 1; }
	cd internal/tools/conformance && $(GO) vet . && ../../../bin/staticcheck .
	@for os in darwin windows; do echo "for $$os"; GOOS=$$os $(GO) build -o bin/ceiling-$$os ./cmd/ceiling && GOOS=$$os $(GO) vet $$(GOOS=$$os $(GO) list -deps ./cmd/ceiling | grep ^ceiling) && GOOS=$$os ./bin/staticcheck -tests=false -checks inherit,-U1000 ./cmd/ceiling || exit 1; done

# race runs what test-all leaves out: the packages that measure, with the race detector
# and without the tests that measure. It needs cgo and a C compiler (deps).
race:
	GROUP=race ./.ci/test

# fuzz gives every parser a few seconds, and composes hostile peers for the generator
# and the proxy; a longer hunt: make fuzz FUZZTIME=10m COMPOSITIONS=1000000. It is no
# part of the tests, which run what the fuzzers start from and fewer peers.
FUZZTIME ?= 3s
COMPOSITIONS ?= 20000
fuzz:
	./.ci/fuzz $(FUZZTIME) $(COMPOSITIONS)

# soak runs the generator, the proxy and backends that die, stall and come back for
# long: memory, descriptors and goroutines stay flat, and no request is lost.
# Shorter: make soak SOAK=5m. test-all runs six seconds of it.
SOAK ?= 30m
soak:
	$(GO) test ./proxy -count=1 -run '^TestSoak$$' -soak $(SOAK) -timeout 0 -v

# conformance runs what others have written about proxies against ours: four
# minutes. test-all runs h2spec of it.
conformance:
	./.ci/conformance

# deploy-test runs what places agents, with the real tools.
deploy-test:
	./.ci/deploy

# release-check makes a release as a snapshot with goreleaser, installs the package in a clean root,
# runs the image's file system, and measures a server in both: root on Debian, about ten minutes.
release-check:
	./deploy/release/check.sh

# site makes pages of docs/, in bin/site: python3 and pip, which fetches MkDocs into bin/.
site:
	python3 -c 'import sys; sys.path.insert(0, "bin/mkdocs"); import mkdocs' 2>/dev/null || \
		python3 -m pip install --quiet --disable-pip-version-check --target bin/mkdocs mkdocs==1.6.1
	PYTHONPATH=bin/mkdocs python3 -m mkdocs build --strict

deps:
	./.ci/deps

# journal measures all entries of docs/journal again: an hour of a machine that does
# nothing else, as root. One of them: make journal ENTRY=0005-gzip.
ENTRY ?=
journal: build
	./docs/journal/measure $(ENTRY)

bench: build
	$(GO) run ./cmd/bench -ceiling ./ceiling
	$(GO) run ./cmd/bench -ceiling ./ceiling -only accuracy -rounds 2
