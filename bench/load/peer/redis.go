package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// keyLife is how long a key is claimed: 35 days, as Tollgate's.
const keyLife = 35 * 24 * time.Hour

// claim counts an event whose key nobody has claimed yet: 1 when it did.
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
		return nil, fmt.Errorf("redis: %w", err)
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
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
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
		return fmt.Errorf("redis: %w", err)
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
				return fmt.Errorf("redis: %w", err)
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
		return 0, fmt.Errorf("redis: %w", err)
	}
	return Outcome(outcome), nil
}

// Read implements Store.
func (s *redisStore) Read(ctx context.Context, customer string) (int64, error) {
	count, err := s.client.Do(ctx, s.client.B().Get().Key("c:"+customer).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("redis: %w", err)
	}
	return count, nil
}

// Syncs implements Store. Redis does not count its fsyncs; with appendfsync always, each of its
// writes to the file is followed by one before it answers. So the file's length is asked for, and
// the setting is seen to hold.
func (s *redisStore) Syncs(ctx context.Context) (map[string]uint64, error) {
	mode, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter("appendfsync").Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	if mode["appendfsync"] != "always" {
		return nil, fmt.Errorf("redis: appendfsync is %q", mode["appendfsync"])
	}
	info, err := s.client.Do(ctx, s.client.B().Info().Section("persistence").Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	_, rest, found := strings.Cut(info, "aof_current_size:")
	size, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
	if err != nil || !found {
		return nil, errors.Join(errors.New("redis: no length of its file"), err)
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
		return fmt.Errorf("redis: %w", err)
	}
	s.front.Servers = []string{address}
	p, err := start("redis", exec.Command(program, "--bind", host, "--port", port, "--dir", s.folder,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no",
		// Rewriting the file in the middle of a measurement would only slow it down.
		"--auto-aof-rewrite-percentage", "0"))
	if err != nil {
		return err
	}
	s.servers = []*process{p}
	return p.listening(ctx, address)
}

// redisTool is Redis's own benchmark of the same script, by 256 connections.
func redisTool(ctx context.Context, s *system) (string, error) {
	program, err := find("redis-benchmark")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(s.front.Servers[0])
	if err != nil {
		return "", fmt.Errorf("redis: %w", err)
	}
	return output(ctx, program, "-p", port, "-c", "256", "-n", "100000", "-r", "1000000000", "-q",
		"EVAL", claim, "2", "k:t__rand_int__", "c:tool", "1", "3024000")
}
