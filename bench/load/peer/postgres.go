package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tollgate/bench/load"
)

// poolSize is how many connections the front keeps to PostgreSQL: commits that wait together share
// one fsync, so more than there are cores; each is a process of the server.
const poolSize = 64

const schema = `
CREATE TABLE keys (key text PRIMARY KEY) WITH (autovacuum_enabled = off);
CREATE TABLE counters (customer text PRIMARY KEY, units bigint NOT NULL) WITH (fillfactor = 50);`

// addOne is one statement, and so one transaction: it counts the event whose key is new.
const addOne = `WITH fresh AS (
	INSERT INTO keys VALUES ($1) ON CONFLICT DO NOTHING RETURNING key)
UPDATE counters SET units = units + $3 FROM fresh WHERE customer = $2`

// spendOne counts the event whose key is new where the limit allows it. The counter's row is locked
// before anything is decided, and what is refused uses up no key. It returns an Outcome.
const spendOne = `WITH held AS (
	SELECT units FROM counters WHERE customer = $2 FOR NO KEY UPDATE),
fresh AS (
	INSERT INTO keys SELECT $1 FROM held WHERE units + $3 <= $4 ON CONFLICT DO NOTHING RETURNING key),
added AS (
	UPDATE counters SET units = units + $3 FROM fresh WHERE customer = $2)
SELECT CASE WHEN EXISTS (SELECT FROM fresh) THEN 1
	WHEN EXISTS (SELECT FROM keys WHERE key = $1) THEN 0 ELSE 2 END FROM held`

// addMany is addOne for many events. Counters are locked in the order of their names, so that
// batches wait for each other, and none is ended as a deadlock.
const addMany = `WITH given AS (
	SELECT DISTINCT ON (key) key, customer, units
	FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t(key, customer, units)),
fresh AS (
	INSERT INTO keys SELECT key FROM given ORDER BY key ON CONFLICT DO NOTHING RETURNING key),
sums AS (
	SELECT customer, sum(units)::bigint AS units FROM given JOIN fresh USING (key) GROUP BY customer),
locked AS (
	SELECT c.customer FROM counters c JOIN sums USING (customer) ORDER BY c.customer
	FOR NO KEY UPDATE OF c),
added AS (
	UPDATE counters c SET units = c.units + sums.units FROM sums JOIN locked USING (customer)
	WHERE c.customer = sums.customer)
SELECT key FROM fresh`

// postgresStore counts in PostgreSQL.
type postgresStore struct{ pool *pgxpool.Pool }

func openPostgres(address string) (Store, error) {
	config, err := pgxpool.ParseConfig("postgres://" + postgresUser + "@" + address +
		"/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = poolSize, poolSize
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for {
		_, err = pool.Exec(ctx, schema)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != startingUp {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresStore{pool}, nil
}

// Create implements Store.
func (s *postgresStore) Create(ctx context.Context, customer string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO counters VALUES ($1, 0)`, customer)
	return err
}

// Add implements Store.
func (s *postgresStore) Add(ctx context.Context, events []Event, fresh []bool) error {
	if len(events) != 1 {
		return s.addMany(ctx, events, fresh)
	}
	tag, err := s.pool.Exec(ctx, addOne, events[0].Key, events[0].Customer, events[0].Units)
	if err != nil {
		return err
	}
	fresh[0] = tag.RowsAffected() == 1
	return nil
}

// Spend implements Store.
func (s *postgresStore) Spend(ctx context.Context, e Event, limit int64) (o Outcome, err error) {
	row := s.pool.QueryRow(ctx, spendOne, e.Key, e.Customer, e.Units, limit)
	err = row.Scan(&o)
	return o, err
}

// Codes of PostgreSQL's errors.
const (
	startingUp = "57P03"
	deadlock   = "40P01"
)

// deadlockTries bounds how often a batch is repeated that PostgreSQL ended as a deadlock.
const deadlockTries = 10

func (s *postgresStore) addMany(ctx context.Context, events []Event, fresh []bool) error {
	keys, customers := make([]string, len(events)), make([]string, len(events))
	units := make([]int64, len(events))
	for i, e := range events {
		keys[i], customers[i], units[i] = e.Key, e.Customer, e.Units
	}
	var counted []string
	var err error
	for range deadlockTries {
		var rows pgx.Rows
		if rows, err = s.pool.Query(ctx, addMany, keys, customers, units); err == nil {
			counted, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != deadlock {
			break
		}
	}
	if err != nil {
		return err
	}
	left := make(map[string]bool, len(counted))
	for _, key := range counted {
		left[key] = true
	}
	for i, key := range keys { // of a key that stands twice, one was counted
		fresh[i] = left[key]
		delete(left, key)
	}
	return nil
}

// Read implements Store.
func (s *postgresStore) Read(ctx context.Context, customer string) (count int64, err error) {
	row := s.pool.QueryRow(ctx, `SELECT units FROM counters WHERE customer = $1`, customer)
	err = row.Scan(&count)
	return count, err
}

// Syncs implements Store: how much of the log is durable, after seeing that the settings hold. Its
// count of fsyncs appears up to a second late.
func (s *postgresStore) Syncs(ctx context.Context) (map[string]uint64, error) {
	var durable int64
	var fsync, commit string
	row := s.pool.QueryRow(ctx, `SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint,
		current_setting('fsync'), current_setting('synchronous_commit')`)
	if err := row.Scan(&durable, &fsync, &commit); err != nil {
		return nil, err
	}
	if fsync != "on" || commit != "on" {
		return nil, fmt.Errorf("fsync is %s, synchronous_commit %s", fsync, commit)
	}
	return map[string]uint64{"postgres (bytes of its log)": uint64(durable)}, nil
}

// Close implements Store.
func (s *postgresStore) Close() error {
	s.pool.Close()
	return nil
}

const (
	// postgresUser owns the database, and is who the server runs as where the harness is root, which
	// PostgreSQL refuses to be.
	postgresUser = "postgres"
	// initTimeout bounds the making of a database.
	initTimeout = 2 * time.Minute
)

// postgresSettings are what differs from the defaults.
var postgresSettings = []string{
	"fsync=on", "synchronous_commit=on", "full_page_writes=on", "wal_level=minimal",
	"max_wal_senders=0", "shared_buffers=1GB", "wal_buffers=64MB", "max_wal_size=8GB",
	"checkpoint_timeout=30min", "wal_init_zero=on",
	// Those of the front, and as many of pgbench.
	"max_connections=" + strconv.Itoa(2*poolSize+10),
	// Half of an fsync, as its manual advises, for those that commit together. Here it made little
	// difference: 12.7 thousand events a second without, 13.7 with 50 or 100 µs, in 9.7 to 15.9.
	"commit_delay=100",
}

// postgresProgram finds a program of Debian's newest PostgreSQL.
func postgresProgram(name string) (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(folders)
	return find(name, folders...)
}

// servePostgres makes a database in the folder, and starts a server.
func servePostgres(ctx context.Context, s *system) error {
	server, err := postgresProgram("postgres")
	if err != nil {
		return err
	}
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return err
	}
	data := filepath.Join(s.folder, "data")
	identity, err := notRoot(s.folder)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	// The database is made once, before anything is measured: it need not survive a power cut then.
	making := exec.CommandContext(ctx, initdb, "-D", data, "-U", postgresUser, "-A", "trust",
		"--encoding=UTF8", "--locale=C", "--no-sync")
	making.SysProcAttr, making.Dir = identity(), s.folder
	if text, err := making.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, text)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	args := []string{"-D", data, "-h", host, "-p", port, "-k", s.folder}
	for _, setting := range postgresSettings {
		args = append(args, "-c", setting)
	}
	command := exec.Command(server, args...)
	command.SysProcAttr, command.Dir = identity(), s.folder
	p, err := start("postgres", command)
	if err != nil {
		return err
	}
	s.servers, s.front.Servers = []*process{p}, []string{address}
	return p.listening(ctx, address)
}

// notRoot gives the folder to the user that the server can run as, and returns what makes a program
// run as that user.
func notRoot(folder string) (func() *syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return func() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }, nil
	}
	account, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, fmt.Errorf("postgres does not run as root, and there is no other user for it: %w",
			errors.Join(err, ErrNotInstalled))
	}
	var ids [2]uint64
	for i, text := range []string{account.Uid, account.Gid} {
		if ids[i], err = strconv.ParseUint(text, 10, 32); err != nil {
			return nil, err
		}
	}
	if err = os.Chown(folder, int(ids[0]), int(ids[1])); err != nil {
		return nil, err
	}
	return func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(ids[0]), Gid: uint32(ids[1])},
		}
	}, nil
}

// postgresTools are pgbench with the statement for one event, prepared.
func postgresTools(s *system, scenario load.Scenario) []load.Tool {
	if scenario != load.ScenarioIngest {
		return nil
	}
	return []load.Tool{{Name: "pgbench -M prepared", Prepare: s.preparePgbench, Run: s.pgbench}}
}

// postgresTool runs one of PostgreSQL's programs against the server.
func (s *system) postgresTool(ctx context.Context, name string, args ...string) (string, error) {
	program, err := postgresProgram(name)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(s.front.Servers[0])
	if err != nil {
		return "", err
	}
	return output(ctx, program, append([]string{
		"-h", host, "-p", port, "-U", postgresUser,
	}, args...)...)
}

func (s *system) preparePgbench(ctx context.Context) error {
	_, err := s.postgresTool(ctx, "psql", "-c",
		`INSERT INTO counters SELECT 'tool' || n, 0 FROM generate_series(1, 10000) n`)
	return err
}

func (s *system) pgbench(ctx context.Context) (operations, rate float64, err error) {
	script := filepath.Join(s.folder, "event.sql")
	const text = `\set customer random(1, 10000)
WITH fresh AS (INSERT INTO keys VALUES (gen_random_uuid()::text)
	ON CONFLICT DO NOTHING RETURNING key)
UPDATE counters SET units = units + 1 FROM fresh WHERE customer = 'tool' || :customer;
`
	if err = os.WriteFile(script, []byte(text), 0o600); err != nil {
		return 0, 0, fmt.Errorf("pgbench: %w", err)
	}
	printed, err := s.postgresTool(ctx, "pgbench", "-n", "-M", "prepared", "-c",
		strconv.Itoa(poolSize), "-j", "2", "-T", "5", "-f", script, postgresUser)
	if err != nil {
		return 0, 0, err
	}
	if operations, err = numberAfter(printed, "transactions actually processed: "); err == nil {
		rate, err = numberAfter(printed, "tps = ")
	}
	return operations, rate, err
}
