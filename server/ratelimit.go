package server

import (
	"strconv"
	"sync"
	"time"
)

// RateLimit allows Requests in each Window, spread evenly, with bursts up to Requests. Zero is no
// limit.
type RateLimit struct {
	Requests int
	Window   time.Duration
}

// RateLimiter counts the requests of each API key against one limit: a bucket that fills evenly.
// It is this node's own; a cluster allows as many times the limit as nodes are asked. Safe for
// concurrent use.
type RateLimiter struct {
	limit  RateLimit
	now    func() time.Time
	each   time.Duration // the time in which one request's room comes back
	policy string
	shards [rateShards]rateShard
}

const (
	rateShards = 16
	// rateKeys is how many keys a shard holds before the full buckets, which say nothing, leave it.
	rateKeys = 4096
)

type rateShard struct {
	mu sync.Mutex
	// full is the instant at which each key's bucket will be full again.
	full map[[16]byte]time.Time
}

// NewRateLimiter makes a limiter; a nil clock is the machine's.
func NewRateLimiter(limit RateLimit, now func() time.Time) *RateLimiter {
	if now == nil {
		now = time.Now
	}
	l := &RateLimiter{limit: limit, now: now}
	if limit.Requests <= 0 || limit.Window <= 0 {
		return l
	}
	l.each = max(1, limit.Window/time.Duration(limit.Requests))
	l.policy = `"key";q=` + strconv.Itoa(limit.Requests) + ";w=" + wholeSeconds(limit.Window)
	for i := range l.shards {
		l.shards[i].full = map[[16]byte]time.Time{}
	}
	return l
}

// Take counts a request of a key and says so in the answer's headers; a fault when there is no
// room. The headers are those of draft-ietf-httpapi-ratelimit-headers-10: r requests are left, and
// in t seconds all are back.
func (l *RateLimiter) Take(x *Exchange, key [16]byte) *Fault {
	if l.each == 0 {
		return nil
	}
	now := l.now()
	wait, left, reset := l.take(key, now)
	h := &x.Ctx.Response.Header
	h.Set("RateLimit-Policy", l.policy)
	h.Set("RateLimit", `"key";r=`+strconv.Itoa(left)+";t="+wholeSeconds(reset))
	if wait == 0 {
		return nil
	}
	fault := faultRate
	fault.RetryAfter = int((wait + time.Second - 1) / time.Second)
	return &fault
}

var faultRate = Fault{
	Status: 429, Code: "rate_limited", Message: "Too many requests with this API key",
	Detail: "Nothing was changed. Repeat the request after Retry-After seconds.",
}

func (l *RateLimiter) take(key [16]byte, now time.Time) (wait time.Duration, left int,
	reset time.Duration,
) {
	shard := &l.shards[key[15]%rateShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	full := shard.full[key]
	if full.Before(now) {
		full = now
	}
	room := time.Duration(l.limit.Requests) * l.each
	next := full.Add(l.each)
	if over := next.Sub(now) - room; over > 0 {
		return over, 0, full.Sub(now)
	}
	if len(shard.full) >= rateKeys {
		shard.sweep(now)
	}
	shard.full[key] = next
	return 0, int((room - next.Sub(now)) / l.each), next.Sub(now)
}

func (s *rateShard) sweep(now time.Time) {
	for key, full := range s.full {
		if !full.After(now) {
			delete(s.full, key)
		}
	}
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
