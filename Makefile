# Everything a developer types. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash -o pipefail

# Everything is compiled as the image is, once for all stages of `make test`; only the race detector
# needs cgo, and compiles again. `make vet` looks at all packages, so `go test` need not.
export CGO_ENABLED ?= 0
export GOFLAGS ?= -trimpath -vet=off -gcflags=all=-dwarf=false -ldflags=-s

# Tools have their own module file, so building the program downloads none of their dependencies.
TOOL := go tool -modfile=$(CURDIR)/.ci/tools.mod
STATICCHECK := $(TOOL) staticcheck
GOFUMPT := $(TOOL) gofumpt

# Folders with a go.mod of their own, which the main module does not need: clients of the databases
# that the bench compares with, what reads the files of deploy/ as Prometheus and others do, Helm,
# and the Terraform provider.
NESTED := bench/load deploy deploy/helm deploy/terraform

# Packages in which goroutines meet: the race detector runs over these, but for the SINGLE ones, and
# over bench/load without its peers: drivers of other databases take longer to compile than all that is
# tested there. `make test-long` runs it over all packages.
CONCURRENT := ./wal/... ./cluster/... ./server/... ./sdk/... ./cmd/tollgate/bucket \
	./cmd/tollgate/certs ./cmd/tollgate/cli ./cmd/tollgate/replay ./examples/devidp \
	./engine/billing/internal/rows ./engine/fair ./engine/idempotency ./engine/journal ./engine/page
SINGLE := tollgate/cluster/backup tollgate/cluster/boltfile tollgate/server/ascii \
	tollgate/server/console/bill tollgate/server/console/mails \
	tollgate/server/console/page tollgate/server/console/spend tollgate/server/document \
	tollgate/server/form tollgate/server/inspect/document tollgate/server/inspect/evaluate \
	tollgate/server/inspect/extract tollgate/server/inspect/fill \
	tollgate/server/inspect/journey tollgate/server/inspect/page \
	tollgate/server/inspect/robots tollgate/server/inspect/signup \
	tollgate/server/inspect/suggest tollgate/server/inspect/tree tollgate/server/link \
	tollgate/server/scan tollgate/server/vault tollgate/server/zone

# A state machine starts no goroutine: of its tests, those run under the race detector whose file
# starts some. cmd/race_test.go compares SINGLE and this with the sources.
MACHINES := ./engine/billing ./engine/workspace
MEETING = $$(grep -lE '\bgo func|\.Go\(|enginetest\.Replayed\(' $(MACHINES:=/*_test.go) | xargs grep -ho '^func Test[A-Za-z0-9_]*' | \
	sed 's/func //' | paste -sd '|')

# These tests repeat a path on one goroutine thousands of times, or measure what it costs. Under the
# race detector they would take long and find nothing: `make unit` runs them. Property tests draw fewer
# cases there for the same reason.
REPEATING := TestADamagedByteIsNeverAWrongVerdict TestAPriceIsDeniedOnlyWhereItWasLookedFor \
	TestAReservedIndexHardlyGrows TestAllKeysAreFoundAfterALongRestore TestBombsAreDefused \
	TestBudgets TestCrashAtEveryOperation TestDamageToAnyFileIsRepairedOrRefused \
	TestDocumentsAreBounded TestDropsLoseNothingYoung TestEveryKeyCanBeFound \
	TestFilesSurviveEveryFault TestHostileKeysCostLittle \
	TestLongTextsAreSearchedToABound TestMemoryPerKeyStaysBounded \
	TestNothingOverlaps TestPackingIsBounded TestRestoreRefusesWhatIsNoSnapshot \
	TestSnapshotAtEveryFailureAndCrash TestStripesDocumentIsReadWithoutLoss \
	TestSubTablesGrowOneAfterAnother TestSummedBlobsAreComparedByTheirSum TestTheOutboxIsBounded

# These take a path on which goroutines meet for each of many inputs, or for minutes of simulated time.
# TestA=TestB: the race detector runs over B, which takes the path once, and over A every night
# (`make test-long`).
VARYING := TestAClockThatIsSetBackDoesNotFreezeLogTime=TestNodeWithAWrongClockDoesNotLead \
	TestAKilledProcessHasKeptItsVotes=TestTwoFormatsOfAVoteGuardEachOther \
	TestALostNodeIsWarnedOfOnceAMinuteByName=TestADeadNodeIsReplaced \
	TestASilentLeaderIsReplacedInTurn=TestALeaderThatHangsUpIsReplacedSooner \
	TestAVoterWithoutFilesIsLeftOut=TestKeysLeaveMemoryAsFarAsAMajorityHasThem \
	TestAnyBitOfAVoteMayFlip=TestTwoFormatsOfAVoteGuardEachOther \
	TestAnyFileThatFailsEndsTheProcessOrIsMadeAgain=TestAFileOfEachKindThatFails \
	TestAnySectorsOfAVote=TestTwoFormatsOfAVoteGuardEachOther \
	TestBackupsThatCannotBeMade=TestBackupWhileClientsWrite \
	TestClockThatIsSteppedMakesNothingFallDue=TestNodeWithAWrongClockDoesNotLead \
	TestDamagedBackupsAreNotRestored=TestBackupWhileClientsWrite \
	TestDamagedLogsAreNotRestored=TestRestoreToAMoment \
	TestDiskThatHangsAtAnyFileEndsTheProcess=TestDiskThatHangsEndsTheProcess \
	TestDroppedSegmentsLeaveEveryNode=TestSegmentsAreFetchedFromPeers \
	TestEachCauseIsGivenAndEnds=TestAnElectionLeavesNodesReady \
	TestEchoedKeysAreNotKept=TestHowRunsEnd \
	TestEvaluationsOfSampleProducts=TestALargeDocumentComesInParts \
	TestEveryCutLeavesWholeBlocks=TestAFileThatIsLostCostsItsBlocks \
	TestEveryRefusal=TestScopes \
	TestHarmfulHostsGetADocument=TestALargeDocumentComesInParts \
	TestKeysLeaveMemory=TestKeysLeaveMemoryAsFarAsAMajorityHasThem \
	TestListAgreesWithReadingEverything=TestEventsFromSegments \
	TestMemoryOfInspectionsIsBounded=TestInspectionsTakeTurns \
	TestNoKeyIsStored=TestHowRunsEnd \
	TestNodeThatIsBackCatchesUpAtOnce=TestLaggingFollowerGetsASnapshot \
	TestNothingIsSeenAcrossWorkspaces=TestScopes \
	TestPowerCutOnARealFileSystem=TestRestartFromDiskLosesNothing \
	TestSampleProducts=TestHowRunsEnd \
	TestSegmentAtEveryCrash=TestSegmentsAreFetchedFromPeers \
	TestSegmentsDroppedMeanwhileAreInTheBackup=TestBackupWhileClientsWrite \
	TestSnapshotThatStopsInTheMiddleIsGivenUp=TestLaggingFollowerGetsASnapshot \
	TestSnapshotsAreNotTakenInStep=TestSnapshotsAreKept \
	TestStalenessIsByTheLaterClock=TestStalenessOfACutFollower \
	TestWorkIsBounded=TestRealDocumentsAreReadWithoutLoss

# So do these, of every route, page, form or answer in turn. They are slow only under the race
# detector: `make check` runs them.
WALKING := TestAgentsThatDoNotKeepToIt=TestNothingOfAnAgentIsLeft \
	TestAnEventIsFoundByItsNumberBetweenMarks=TestEventsFromSegments \
	TestCrossSiteRequestForgery=TestAnOwnerStartsARun \
	TestDoubleSubmits=TestADoubleSubmit \
	TestEvaluationsSayWhatItDoes=TestEveryVariant \
	TestEveryFlippedBitCostsOneBlock=TestAFileThatIsLostCostsItsBlocks \
	TestEveryRowIsGuarded=TestBillingWalk \
	TestEveryWriteIsRecorded=TestBillingWalk \
	TestExamples=TestAccountsKeysAndCatalog \
	TestExamples=TestEveryEndpoint \
	TestExamples=TestPagesOfEvents \
	TestFloodsAreUnknown=TestAFloodIsUnknown \
	TestHEADAnswersAsGET=TestAccountsKeysAndCatalog \
	TestHEADAnswersAsGET=TestPagesOfEvents \
	TestHostileTexts=TestAnOwnerStartsARun \
	TestHostileTexts=TestBillingWalk \
	TestHostileTextsWhereAnAddressIsAsked=TestAnOwnerSetsAlertsOnAPage \
	TestLargeBatch=TestBatch \
	TestNoAnswerNamesAnothersRecord=TestScopes \
	TestNoKeyButTheAdminKeyOperates=TestAccountsKeysAndCatalog \
	TestNoKeyReachesAnothersRecords=TestPagesOfEvents \
	TestRecordsAreTheirEnvironments=TestAccountsKeysAndCatalog \
	TestScriptInEveryField=TestAnOwnerStartsARun \
	TestTheSameAnswersTheSameRun=TestEveryVariant \
	TestUnknownQueryParametersAreNamed=TestAccountsKeysAndCatalog \
	TestUnknownQueryParametersAreNamed=TestPagesOfEvents

# Over RACED the race detector runs; `make unit` runs what it leaves out of them, not everything twice.
RACED := $$(go list $(CONCURRENT) | grep -vxF $(SINGLE:%=-e %))
first = $(sort $(foreach pair,$1,$(firstword $(subst =, ,$(pair)))))
VARIED := $(call first,$(VARYING))
LEFT_OUT := $(REPEATING) $(VARIED) $(call first,$(WALKING))

# What resolves names and connects to others does so by Go's own resolver where cgo is off, as it is
# shipped, and by the C library's under the detector: `make unit` runs all tests of these, too.
DIALING := tollgate/server/provider/fetch tollgate/server/provider/mail

# Process tests start real nodes, and run alone.
PROCESSES := ./bench/clustertest ./bench/browsertest ./bench/torture
UNITS := $$(go list ./... | grep -v -e /clustertest -e /browsertest -e /torture)

# These start programs and browsers, too, and wait for them as long as somebody at a terminal would.
PROGRAMS := tollgate/cmd/tollgate tollgate/cmd/tollgate-browser tollgate/cmd/tollgate/daemon

# More flags for `go test`; .ci/run sets -v.
TESTFLAGS ?=

# How long each fuzz target runs in `make test`: a number of inputs, since on a busy machine a target
# that is stopped by time may fail for that alone ("context deadline exceeded").
FUZZTIME ?= 1000x

# GUIDED=1 compiles fuzz targets with the instrumentation that guides the fuzzer to new code. That is
# compiling everything once more: `make test-long` does it.
GUIDED ?=

# How many cases a property test draws. A failure prints the command that repeats it.
export RAPID_CHECKS ?= 50

# The seed of `make simulate` and `make torture`; 0 is a new one, which they print.
SEED ?= 0

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## run three nodes on this machine, with a demo account
	go build -o bin/ ./cmd/tollgate ./examples/agent
	exec bin/tollgate dev --sample-product --agent example=bin/agent

.PHONY: demo-workspace
demo-workspace: ## do what a new agent does, against the cluster of `make run`
	go build -o bin/ ./cmd/tollgate
	bin/tollgate tour

.PHONY: build
build: ## build the programs into bin/
	go build -o bin/ ./cmd/tollgate ./cmd/tollgate-browser
	go build -C bench/load -o $(CURDIR)/bin/ ./tollgate-bench

.PHONY: dist
dist: ## make a release in bin/dist: tarballs, debs, image, SHA256SUMS, bills of materials (Debian)
	deploy/dist

.PHONY: test
test: ## everything that proves it works
	@MAKE="$(MAKE)" .ci/stages compile "processes programs modules" "compile-modules unit fuzz" \
		-- "compile-race format race-others race-machines race-load vet"
	@echo "All tests passed."

# Lanes that start together would compile much of it twice, each for itself. What the race detector
# runs over is compiled for it alone. Collecting garbage less often, a compiler takes an eighth less of
# the processor.
.PHONY: compile compile-modules compile-race
compile compile-modules compile-race: export GOGC := 400
compile: ## compile all packages and their tests
	@go list -export -deps -test ./... > /dev/null

compile-modules:
	@set -e; for module in $(NESTED); do go list -C $$module -export -deps -test ./... > /dev/null; done

compile-race: export CGO_ENABLED := 1
compile-race:
	@go list -race -export -deps -test $(RACED) $(MACHINES) > /dev/null

.PHONY: check
check: ## a quick answer on what a change touches; PKG=./engine/price: as if this package had changed
	@VARIED="$(VARIED)" PROGRAMS="$(PROGRAMS)" .ci/check $(PKG)

.PHONY: test-long
test-long: export RAPID_CHECKS := 1000
test-long: ## more of everything: for every night, some two hours
	$(MAKE) compile compile-modules format vet unit programs modules processes
	go test ./cmd/generate -run TestAFieldTakesThreeStatements -args -build
	go test -timeout 15m $(TESTFLAGS) $(RACED)
	go test -count=1 -timeout 30m $(TESTFLAGS) ./bench/browsertest -args -every
	CGO_ENABLED=1 go test -race -tags long -timeout 60m $(TESTFLAGS) $(UNITS)
	CGO_ENABLED=1 go test -C bench/load -race $(TESTFLAGS) ./...
	go test -C deploy -tags long -timeout 60m -count=1 -run 'TestAReleaseIsReproducible$$' $(TESTFLAGS) .
	$(MAKE) fuzz FUZZTIME=100000x GUIDED=1
	$(MAKE) simulate SEED=0 FOR=10m
	$(MAKE) torture NET=proxy
	go test -count=1 -timeout 15m $(TESTFLAGS) ./bench/clustertest \
		-run '^TestAThousandAgentsShareABudget$$' -args -leader-kills=20

.PHONY: format
format: ## say which files are not formatted
	@unformatted=$$($(GOFUMPT) -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; fi

# The tags of the bugs that `make planted` plants.
PLANTED_CLUSTER := planted_lease,planted_answer,planted_blind
PLANTED_KEY := planted_key
PLANTED_BILLING := planted_hold,planted_billed,planted_topup
PLANTED := $(PLANTED_CLUSTER),$(PLANTED_KEY),$(PLANTED_BILLING)

# Bugs are vetted package by package: a bug in keys compiles all of the engine again for whoever
# imports it. Collecting garbage less often, the analyzers take a quarter less of the processor.
.PHONY: vet
vet: export GOGC := 400
vet: ## go vet and staticcheck
	go vet ./...
	go vet -tags $(PLANTED_CLUSTER) ./cluster
	go vet -tags $(PLANTED_KEY) ./engine/idempotency
	go vet -tags $(PLANTED_BILLING) ./engine/billing/internal/holds ./engine/billing/internal/credits
	$(STATICCHECK) ./...
	set -e; for module in $(NESTED); do cd "$(CURDIR)/$$module"; go vet ./...; $(STATICCHECK) ./...; done

# The commit before the first one of the remodelling.
SINCE ?= 70daaf81

.PHONY: counts
counts: ## print the size of packages and types, the arrows between files, and what was taken away
	go test -count=1 ./cmd -run 'Test(Counts|TakenAway)$$' -v -args -since=$(SINCE)

.PHONY: unit
unit: ## unit tests, but for those that race and programs run
	.ci/unit "$$(printf '%s\n' $(UNITS) | grep -vxF $(PROGRAMS:%=-e %))" \
		"$$(printf '%s\n' $(RACED) | grep -vxF $(DIALING:%=-e %))" "$(LEFT_OUT)"

.PHONY: programs
programs: ## tests of commands and browsers
	go test -timeout 15m $(TESTFLAGS) $(PROGRAMS)

# A module whose tests fail stops none of the others: .ci/again runs a failed test once more, not what
# came to no test.
.PHONY: modules
modules: ## tests of the modules in bench/load and deploy
	@status=0; for module in $(NESTED); do \
		echo "go test -C $$module"; \
		packages=$$(go list -C $$module ./... | grep -vx tollgate/bench/load) && [ -n "$$packages" ] && \
			go list -C $$module -test -deps ./... > /dev/null || { echo "FAIL	tollgate/$$module [setup failed]"; status=1; continue; }; \
		go test -C $$module $(TESTFLAGS) $$packages || status=1; \
	done; exit $$status

.PHONY: race race-machines race-others race-load
race: race-machines race-others race-load ## tests in which goroutines meet, under the race detector

race-machines race-others race-load: export CGO_ENABLED := 1
race-machines race-others race-load: export RAPID_CHECKS := 10
ONCE := -skip "^($$(tr ' ' '|' <<< "$(LEFT_OUT)"))\$$"

race-machines:
	go test -race -timeout 15m $(TESTFLAGS) -run "^($(MEETING))\$$" $(ONCE) $(MACHINES)

race-others:
	go test -race -p 3 -timeout 15m $(TESTFLAGS) $(ONCE) $(RACED)

race-load:
	go test -C bench/load -race $(TESTFLAGS) .

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME; GUIDED=1: towards new code
	.ci/fuzz $(FUZZTIME) $(GUIDED)

.PHONY: processes
processes: ## tests on real node processes, with kill -9
	bench/browsertest/axe.sh
	go test -p 1 -parallel 3 -count=1 -timeout 8m $(TESTFLAGS) $(PROCESSES)

# How long `make simulate` draws seeds if SEED is 0.
FOR ?= 60s

.PHONY: simulate
simulate: ## whole nodes on disks, a network and a time in memory, from SEED; 0 draws new ones
	go test -count=1 -timeout 30m -v -run '^TestSimulation$$' ./cluster \
		-args -seed=$(SEED) -simulate=$(FOR)

.PHONY: test-browser
test-browser: ## what people do with the pages, in Chromium (Debian: apt-get install chromium)
	@command -v chromium > /dev/null || { \
		echo "there is no Chromium on this machine: apt-get install chromium"; exit 1; }
	bench/browsertest/axe.sh
	go test -count=1 -timeout 8m $(TESTFLAGS) ./bench/browsertest

.PHONY: screens
screens: ## make pictures of all pages in bin/screens, and those of docs/screens again
	rm -rf bin/screens && mkdir -p bin/screens
	bench/browsertest/axe.sh
	go test -count=1 -timeout 15m ./bench/browsertest -args -screens=$(CURDIR)/bin/screens
	for picture in docs/screens/*.png; do cp bin/screens/$${picture##*/} $$picture; done

# How long `make torture` makes faults.
MINUTES ?= 10

# What is between the nodes: namespaces (root, or a kernel that allows user namespaces; iproute2), or
# proxy, which needs no privilege.
NET ?= namespaces

.PHONY: torture
torture: ## break a cluster in every way for MINUTES, and check every promise
	@if [ "$(NET)" = namespaces ]; then \
		go test -count=1 -tags namespaces -run '^TestNamespaces' ./bench/faultnet || { \
			echo "no cluster was tortured; make torture NET=proxy needs no privilege"; exit 1; }; fi
	go test -count=1 -timeout 0 -v -run '^TestTorture$$' ./bench/torture \
		-args -net=$(NET) -for=$(MINUTES)m -seed=$(SEED)

.PHONY: load
load: ## hold 15,000 connections on a node and ask ten times what it takes, for a minute
	go test -count=1 -timeout 15m -v -run '^TestOverload$$' ./bench/clustertest \
		-args -idle=10000 -slow=5000 -load=60s

.PHONY: planted
planted: ## see that the torture finds planted bugs, by what clients see
	go vet -tags namespaces,planted,$(PLANTED) \
		./bench/torture ./bench/faultnet ./cluster ./engine/idempotency \
		./engine/billing/internal/holds ./engine/billing/internal/credits
	go test -count=1 -timeout 0 -v -tags planted -run TestPlantedBugsAreFound \
		./bench/torture -args -net=$(NET)

.PHONY: bench
bench: build ## measure every row of docs/speed.md in little, in less than ten minutes
	bin/tollgate-bench table --small --html bin/bench.html

# The commit that bench-compare compares with; empty is the one in bench/baseline.
BASE ?=

.PHONY: bench-compare
bench-compare: ## benchmarks of engine and log beside those of an earlier commit, by ratio
	bench/compare.sh $(BASE)

.PHONY: fmt
fmt: ## format all files
	$(GOFUMPT) -w .

.PHONY: clean
clean: ## remove what was built; data of `make run` stays
	rm -rf bin
	go clean -testcache
