package cmd_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// needs lists the packages of this module that each package below engine, cluster, server and cmd
// imports, other than in tests; TestImportsGoOneWay has the rules for whole folders. A name with /*
// is all packages below a folder. A new package needs a row, and a new arrow is a decision that
// shows here.
const needs = `
cluster/backup: engine engine/journal
cluster/boltfile: wal
cluster/keyfiles: engine/idempotency engine/journal wal
cluster/rollups: engine/journal engine/rollup wal
cluster/segments: engine/journal wal
cmd/generate: engine/schema
cmd/tollgate: cluster cmd/tollgate/cli cmd/tollgate/daemon cmd/tollgate/dev cmd/tollgate/local
	cmd/tollgate/reference server/provider/runner server/spool
cmd/tollgate-browser: server/inspect/fill server/inspect/signup server/provider/runner/follower
cmd/tollgate/archive: cluster/backup cmd/tollgate/bucket
cmd/tollgate/bucket:
cmd/tollgate/certs:
cmd/tollgate/cli: cmd/tollgate/devdata engine/decimal sdk/go
cmd/tollgate/config: engine/workspace
cmd/tollgate/daemon: cluster cluster/backup cmd/tollgate/archive cmd/tollgate/bucket
	cmd/tollgate/certs cmd/tollgate/config cmd/tollgate/devdata cmd/tollgate/doctor
	cmd/tollgate/measure docs engine engine/* server server/*
cmd/tollgate/demo:
cmd/tollgate/dev: cluster cmd/tollgate/certs cmd/tollgate/cli cmd/tollgate/config
	cmd/tollgate/demo cmd/tollgate/devdata cmd/tollgate/replay cmd/tollgate/tour
	cmd/tollgate/trace engine examples/devidp examples/sampleproduct sdk/go server
cmd/tollgate/devdata:
cmd/tollgate/doctor: cluster cmd/tollgate/bucket cmd/tollgate/config cmd/tollgate/devdata
cmd/tollgate/licenses:
cmd/tollgate/local: cluster cluster/backup cmd/tollgate/archive cmd/tollgate/bucket
	cmd/tollgate/certs cmd/tollgate/cli cmd/tollgate/config cmd/tollgate/daemon
	cmd/tollgate/devdata cmd/tollgate/doctor cmd/tollgate/licenses cmd/tollgate/reference engine
	engine/* examples sdk/go server/admin wal
cmd/tollgate/measure: cluster engine/workspace server server/tracing
cmd/tollgate/reference:
cmd/tollgate/replay: cmd/tollgate/trace sdk/go
cmd/tollgate/tour: sdk/go
cmd/tollgate/trace:
engine/billing: engine engine/*
engine/billing/internal/accounts: engine engine/billing/internal/catalogs
	engine/billing/internal/rows engine/fair engine/idempotency engine/journal engine/machine
	engine/page engine/uuid engine/wire
engine/billing/internal/auditor: engine/billing/internal/book engine/billing/internal/catalogs
	engine/billing/internal/credits engine/billing/internal/sums engine/decimal engine/price
engine/billing/internal/book: engine/billing/internal/accounts engine/billing/internal/catalogs
	engine/billing/internal/rows engine/billing/internal/sums engine/decimal engine/machine
	engine/page engine/prefetch engine/price engine/rollup engine/wire
engine/billing/internal/budgets: engine engine/billing/internal/accounts
	engine/billing/internal/catalogs engine/billing/internal/rows engine/billing/internal/sums
	engine/decimal engine/machine engine/page engine/period engine/prefetch engine/wire engine/zone
engine/billing/internal/catalogs: engine engine/billing/internal/rows
	engine/billing/internal/sums engine/credit engine/decimal engine/price engine/schema
	engine/uuid engine/wire
engine/billing/internal/charging: engine engine/billing/internal/accounts
	engine/billing/internal/book engine/billing/internal/budgets engine/billing/internal/credits
	engine/billing/internal/lifecycle engine/billing/internal/outbox
	engine/billing/internal/rows engine/billing/internal/sums engine/decimal engine/wire
engine/billing/internal/credits: engine engine/billing/internal/accounts
	engine/billing/internal/book engine/billing/internal/catalogs engine/billing/internal/outbox
	engine/billing/internal/rows engine/billing/internal/sums engine/credit engine/decimal
	engine/journal engine/machine engine/page engine/period engine/uuid engine/wire
engine/billing/internal/holds: engine/billing/internal/accounts engine/billing/internal/book
	engine/billing/internal/catalogs engine/billing/internal/rows engine/billing/internal/sums
	engine/decimal engine/page engine/prefetch engine/uuid engine/wire
engine/billing/internal/lifecycle: engine engine/billing/internal/accounts
	engine/billing/internal/book engine/billing/internal/catalogs
	engine/billing/internal/credits engine/billing/internal/outbox engine/billing/internal/rows
	engine/billing/internal/sums engine/decimal engine/page engine/period engine/price
	engine/wire
engine/billing/internal/outbox: engine engine/billing/internal/accounts
	engine/billing/internal/book engine/billing/internal/catalogs engine/billing/internal/rows
	engine/decimal engine/page engine/wire
engine/billing/internal/rows: engine/decimal engine/page engine/prefetch engine/schema
	engine/wire
engine/billing/internal/sums: engine/decimal
engine/credit: engine/decimal
engine/decimal:
engine/fair:
engine/idempotency:
engine/journal: engine/prefetch
engine/machine: engine engine/page engine/wire
engine/pack:
engine/page: engine/prefetch
engine/period: engine/decimal
engine/prefetch:
engine/price: engine/decimal engine/schema
engine/rollup: engine/decimal engine/journal
engine/schema:
engine/uuid:
engine/wire: engine/decimal
engine/workspace: engine engine/*
engine/zone: engine/wire
server/admin: engine engine/* server server/audit server/billinglog server/billingview
	server/form server/link server/outbox server/payments server/scan server/search server/vault
server/ascii:
server/audit: engine engine/billing engine/fair server server/spool
server/billinglog: engine engine/billing engine/decimal engine/idempotency engine/journal
	engine/wire server
server/billingview: engine engine/billing engine/decimal engine/rollup engine/wire server
	server/form server/link server/search
server/client: engine engine/* server server/ascii server/audit server/billinglog
	server/billingview server/form server/link server/payments server/scan server/search
	server/zone
server/console: engine engine/* sdk/go server server/ascii server/billingview server/client
	server/console/bill server/console/page server/console/spend server/document server/identity
server/console/bill: engine/billing engine/decimal sdk/go server server/console/page
	server/document
server/console/mails: server server/console/page server/provider/mail
server/console/manual: server server/console/page
server/console/owner: engine/* sdk/go server server/console/page server/identity
	server/inspect/document server/inspect/journey server/workspaceapi
server/console/page: engine/decimal server
server/console/portal: engine engine/* sdk/go server server/billingview server/client
	server/console/bill server/console/page server/console/spend server/document server/link
	server/payments
server/console/spend: engine/billing engine/decimal sdk/go server/console/page
server/document:
server/form: engine/decimal engine/schema server server/scan
server/identity: engine engine/wire engine/workspace server server/ascii server/provider/fetch
	server/vault
server/inspect: server/inspect/collect server/inspect/document server/inspect/evaluate
	server/inspect/extract server/inspect/journey server/inspect/suggest
server/inspect/collect: server/inspect/document server/inspect/page server/inspect/robots
	server/inspect/tree server/provider/fetch
server/inspect/document:
server/inspect/evaluate: server/inspect/collect server/inspect/document server/inspect/extract
	server/inspect/openapi server/inspect/robots
server/inspect/extract: server/inspect/collect server/inspect/document server/inspect/fill
	server/inspect/openapi server/inspect/page server/inspect/robots server/inspect/signup
	server/inspect/tree server/provider/fetch
server/inspect/fill: server/ascii server/inspect/openapi server/inspect/signup
	server/inspect/tree
server/inspect/journey: server/inspect/document
server/inspect/openapi: server/inspect/document server/inspect/tree
server/inspect/page: server/inspect/tree
server/inspect/robots:
server/inspect/signup: server/inspect/document server/inspect/openapi server/inspect/tree
server/inspect/suggest: server/inspect/document server/inspect/extract server/inspect/openapi
	server/provider/fetch
server/inspect/tree:
server/leader:
server/link: engine/billing server/vault
server/outbox: engine engine/billing engine/wire server server/billingview server/leader
	server/provider/fetch server/provider/mail server/provider/webhook server/vault
server/payments: engine engine/billing engine/decimal engine/wire server server/leader
	server/link server/provider/fetch server/provider/payment server/vault
server/provider/fetch:
server/provider/mail:
server/provider/payment: engine/decimal server/ascii server/provider/fetch
	server/provider/webhook
server/provider/runner: server/ascii server/provider/fetch
server/provider/runner/follower: server/ascii server/inspect/collect server/inspect/document
	server/inspect/extract server/inspect/fill server/inspect/openapi server/inspect/page
	server/inspect/signup server/inspect/suggest server/inspect/tree server/provider/fetch
	server/provider/runner
server/provider/verify: server/provider/fetch
server/provider/webhook: server/ascii server/provider/fetch
server/scan:
server/search: engine/billing engine/idempotency engine/journal server
server/spool:
server/tracing: server
server/vault:
server/workspaceapi: engine engine/* server server/ascii server/audit server/form server/identity
	server/inspect server/inspect/document server/inspect/journey server/inspect/suggest
	server/leader server/provider/fetch server/provider/mail server/provider/payment
	server/provider/runner server/provider/verify server/provider/webhook server/scan server/vault
server/zone: engine/zone
`

func TestPackagesImportWhatTheyNeed(t *testing.T) {
	rows, unused := map[string][]string{}, map[string]bool{}
	joined := strings.ReplaceAll(strings.TrimSpace(needs), "\n\t", " ")
	for row := range strings.SplitSeq(joined, "\n") {
		folder, names, _ := strings.Cut(row, ":")
		rows[folder] = strings.Fields(names)
		unused[folder] = true
		for _, name := range rows[folder] {
			unused[folder+" → "+name] = true
		}
	}
	var offenders []string
	for _, s := range sources(t) {
		top, _, below := strings.Cut(s.folder, "/")
		if s.test || !below || !slices.Contains([]string{"engine", "cluster", "server", "cmd"}, top) ||
			strings.Contains(s.folder, "/testdata") {
			continue
		}
		row, known := rows[s.folder]
		delete(unused, s.folder)
		if !known {
			offenders = append(offenders, s.path+": needs has no row for its package")
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			ours := folderOf(path)
			by := slices.IndexFunc(row, func(name string) bool {
				folder, all := strings.CutSuffix(name, "/*")
				return name == ours || all && strings.HasPrefix(ours, folder+"/")
			})
			if by >= 0 {
				delete(unused, s.folder+" → "+row[by])
			} else if ours != "" && known {
				offenders = append(offenders, s.at(spec.Pos())+" imports "+ours+", which needs does not list")
			}
		}
	}
	for name := range unused {
		offenders = append(offenders, "needs lists what is not so: "+name)
	}
	slices.Sort(offenders)
	report(t, "packages import what they need", offenders)
}
