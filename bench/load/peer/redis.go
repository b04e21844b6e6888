package peer

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"tollgate/bench/load"
)

// keyLife is how long a key is claimed: 35 days, as Tollgate's.
const keyLife = 35 * 24 * time.Hour

// claim counts an event whose key is not claimed yet: 1 when it did.
const claim = `if redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[2]) then
	redis.call('INCRBY', KEYS[2], ARGV[1])
	return 1
end
return 0`

// claimAll is claim for a whole batch, in one call: KEYS are key, counter, key, counter …, ARGV
// the life of keys and each event's units. It blocks Redis for as long as the batch takes.
const claimAll = `local fresh = {}
for i = 1, #KEYS / 2 do
	fresh[i] = 0
	if redis.call('SET', KEYS[2 * i - 1], 1, 'NX', 'EX', ARGV[1]) then
		redis.call('INCRBY', KEYS[2 * i], ARGV[i + 1])
		fresh[i] = 1
	end
end
return fresh`

// spend is claim within a limit: an Outcome. What is refused uses up no key.
const spend = `if redis.call('EXISTS', KEYS[1]) == 1 then
	return 0
end
if tonumber(redis.call('GET', KEYS[2])) + ARGV[1] > tonumber(ARGV[3]) then
	return 2
end
redis.call('SET', KEYS[1], 1, 'EX', ARGV[2])
redis.call('INCRBY', KEYS[2], ARGV[1])
return 1`

// redisStore counts in Redis. rueidis sends what callers ask at the same time as one pipeline.
type redisStore struct {
	client        rueidis.Client
	script, spend *rueidis.Lua
	all           *rueidis.Lua
	depth         int // of the pipeline; 0: a batch is one call of all
	life          string
}

func openRedis(address string, depth int) (Store, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address}, DisableCache: true, AlwaysPipelining: true,
		// A Redis that restarts must show, not be hidden by another try.
		DisableRetry: true,
	})
	if err != nil {
		return nil, err
	}
	return &redisStore{
		client: client, script: rueidis.NewLuaScript(claim), depth: depth,
		spend: rueidis.NewLuaScript(spend), all: rueidis.NewLuaScript(claimAll),
		life: strconv.Itoa(int(keyLife.Seconds())),
	}, nil
}

// Create implements Store.
func (s *redisStore) Create(ctx context.Context, customer string) error {
	err := s.client.Do(ctx, s.client.B().Set().Key("c:"+customer).Value("0").Build()).Error()
	return err
}

// Add implements Store: one call of the script for each event, as many in a pipeline as depth says,
// or one call for all of them.
func (s *redisStore) Add(ctx context.Context, events []Event, fresh []bool) error {
	if s.depth == 0 && len(events) > 1 {
		return s.addAll(ctx, events, fresh)
	}
	return s.addEach(ctx, events, fresh, max(s.depth, 1))
}

func (s *redisStore) addAll(ctx context.Context, events []Event, fresh []bool) error {
	keys := make([]string, 0, 2*len(events))
	args := append(make([]string, 0, 1+len(events)), s.life)
	for _, e := range events {
		keys = append(keys, "k:"+e.Key, "c:"+e.Customer)
		args = append(args, strconv.FormatInt(e.Units, 10))
	}
	counted, err := s.all.Exec(ctx, s.client, keys, args).AsIntSlice()
	if err == nil && len(counted) != len(events) {
		err = fmt.Errorf("%d answers to %d events", len(counted), len(events))
	}
	if err != nil {
		return err
	}
	for i, n := range counted {
		fresh[i] = n == 1
	}
	return nil
}

func (s *redisStore) addEach(ctx context.Context, events []Event, fresh []bool, depth int) error {
	calls := make([]rueidis.LuaExec, 0, min(depth, len(events)))
	for from := 0; from < len(events); from += depth {
		part := events[from:min(from+depth, len(events))]
		calls = calls[:0]
		for _, e := range part {
			calls = append(calls, rueidis.LuaExec{
				Keys: []string{"k:" + e.Key, "c:" + e.Customer},
				Args: []string{strconv.FormatInt(e.Units, 10), s.life},
			})
		}
		for i, result := range s.results(ctx, calls) {
			counted, err := result.AsInt64()
			if err != nil {
				return err
			}
			fresh[from+i] = counted == 1
		}
	}
	return nil
}

func (s *redisStore) results(ctx context.Context, calls []rueidis.LuaExec) []rueidis.RedisResult {
	if len(calls) == 1 {
		return []rueidis.RedisResult{s.script.Exec(ctx, s.client, calls[0].Keys, calls[0].Args)}
	}
	return s.script.ExecMulti(ctx, s.client, calls...)
}

// Spend implements Store.
func (s *redisStore) Spend(ctx context.Context, e Event, limit int64) (Outcome, error) {
	outcome, err := s.spend.Exec(ctx, s.client, []string{"k:" + e.Key, "c:" + e.Customer}, []string{
		strconv.FormatInt(e.Units, 10), s.life, strconv.FormatInt(limit, 10),
	}).AsInt64()
	if err != nil {
		return 0, err
	}
	return Outcome(outcome), nil
}

// Read implements Store.
func (s *redisStore) Read(ctx context.Context, customer string) (int64, error) {
	count, err := s.client.Do(ctx, s.client.B().Get().Key("c:"+customer).Build()).AsInt64()
	return count, err
}

// Syncs implements Store. Redis does not count its fsyncs; with appendfsync always, each of its
// writes to the file is followed by one before it answers. So the file's length is asked for, and
// the setting is seen to hold.
func (s *redisStore) Syncs(ctx context.Context) (map[string]uint64, error) {
	mode, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	if mode["appendfsync"] != "always" {
		return nil, fmt.Errorf("appendfsync is %q", mode["appendfsync"])
	}
	info, err := s.client.Do(ctx, s.client.B().Info().Section("persistence").Build()).ToString()
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(info, "aof_current_size:")
	size, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	if err != nil || !found {
		return nil, errors.Join(errors.New("no length of its file"), err)
	}
	return map[string]uint64{"redis (bytes of its file)": size}, nil
}

// Close implements Store.
func (s *redisStore) Close() error {
	s.client.Close()
	return nil
}

// serveRedis starts one server that appends and calls fsync before it answers.
func serveRedis(ctx context.Context, s *system) error {
	program, err := find("redis-server")
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	s.front.Servers = []string{address}
	args := []string{
		"--bind", host, "--port", port, "--dir", s.folder,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no",
		// Rewriting the file in the middle of a measurement would only slow it down.
		"--auto-aof-rewrite-percentage", "0",
	}
	if s.threads > 0 {
		args = append(args, "--io-threads", strconv.Itoa(s.threads), "--io-threads-do-reads", "yes")
	}
	p, err := start("redis", exec.Command(program, args...))
	if err != nil {
		return err
	}
	s.servers = []*process{p}
	return p.listening(ctx, address)
}

// redisDepths are depths of redis-benchmark's pipelines, and how many requests measure each.
var redisDepths = []struct{ depth, requests int }{{1, 100_000}, {16, 300_000}, {100, 500_000}}

// redisTools are redis-benchmark without a front: reads of counters, or the script for an event,
// over 256 connections that speak RESP, in pipelines of each depth.
func redisTools(s *system, scenario load.Scenario) (tools []load.Tool) {
	sum := sha1.Sum([]byte(claim))
	var command []string
	switch scenario {
	case load.ScenarioCheck:
		command = []string{"GET", "c:__rand_int__"}
	case load.ScenarioIngest:
		command = []string{
			"EVALSHA", hex.EncodeToString(sum[:]), "2", "k:t__rand_int__", "c:tool", "1", "3024000",
		}
	default:
		return nil
	}
	for _, with := range redisDepths {
		tools = append(tools, load.Tool{
			Name:    fmt.Sprintf("redis-benchmark -P %d %s", with.depth, command[0]),
			Prepare: func(ctx context.Context) error { return s.prepareRedis(ctx, claim) },
			Run: func(ctx context.Context) (operations, rate float64, err error) {
				return s.redisBenchmark(ctx, with.depth, with.requests, command)
			},
		})
	}
	return tools
}

// prepareRedis makes counters, and lets Redis know a script.
func (s *system) prepareRedis(ctx context.Context, script string) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.front.Servers, DisableCache: true,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	if err = client.Do(ctx, client.B().ScriptLoad().Script(script).Build()).Error(); err != nil {
		return err
	}
	sets := make(rueidis.Commands, 0, 10_000)
	for i := range cap(sets) { // as redis-benchmark writes numbers
		sets = append(sets, client.B().Set().Key(fmt.Sprintf("c:%012d", i)).Value("0").Build())
	}
	for _, result := range client.DoMulti(ctx, sets...) {
		if err = result.Error(); err != nil {
			return err
		}
	}
	return nil
}

func (s *system) redisBenchmark(ctx context.Context, depth, requests int, command []string,
) (operations, rate float64, err error) {
	program, err := find("redis-benchmark")
	if err != nil {
		return 0, 0, err
	}
	_, port, err := net.SplitHostPort(s.front.Servers[0])
	if err != nil {
		return 0, 0, err
	}
	keys := "10000"
	if command[0] != "GET" {
		keys = "1000000000"
	}
	text, err := output(ctx, program, append([]string{
		"-p", port, "-c", "256", "-n", strconv.Itoa(requests), "-r", keys, "-P", strconv.Itoa(depth),
		"--csv",
	}, command...)...)
	if err != nil {
		return 0, 0, err
	}
	// A line of titles, and one of "what","requests a second",…
	rate, err = numberAfter(text[strings.LastIndexByte(text, '\n')+1:], `","`)
	return float64(requests), rate, err
}
