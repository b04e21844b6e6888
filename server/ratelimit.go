package server

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RateLimit allows Requests, Items (usage events and checks) and Bytes of bodies in each Window,
// spread evenly, with bursts up to that. Zero means no limit.
type RateLimit struct {
	Requests, Items, Bytes int
	Window                 time.Duration
}

// RateLimiter counts what each API key asks for against the limits: buckets that fill evenly. It is
// this node's own; a cluster allows as many times the limit as nodes are asked. Safe for concurrent
// use.
type RateLimiter struct {
	now                    func() time.Time
	requests, items, bytes *buckets
}

// buckets count one thing for each key; nil: it has no limit.
type buckets struct {
	limit  int
	window time.Duration
	name   string
	policy string
	fault  *Fault
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
	return &RateLimiter{
		now:      now,
		requests: newBuckets("key", limit.Requests, limit.Window, "Too many requests with this API key"),
		items: newBuckets("items", limit.Items, limit.Window,
			"Too many usage events and checks with this API key"),
		bytes: newBuckets("bytes", limit.Bytes, limit.Window,
			"Too many bytes in requests with this API key"),
	}
}

// faultRate is a request beyond a bound, which each bound names.
var faultRate = NewFault(429, "rate_limited", "Too many requests, events or bytes").With(
	"Nothing was changed. Repeat the request after Retry-After seconds.")

func newBuckets(name string, limit int, window time.Duration, message string) *buckets {
	if limit <= 0 || window <= 0 {
		return nil
	}
	b := &buckets{
		limit: limit, window: window, name: name,
		policy: `"` + name + `";q=` + strconv.Itoa(limit) + ";w=" + wholeSeconds(window),
		fault:  faultRate.Saying(message),
	}
	for i := range b.shards {
		b.shards[i].full = map[[16]byte]time.Time{}
	}
	return b
}

// Take counts a request of a key and the body that it announces, and says so in the headers;
// a fault when there is no room. The headers are those of draft-ietf-httpapi-ratelimit-headers-10:
// r requests are left, and in t seconds all are back.
func (l *RateLimiter) Take(x *Exchange, key [16]byte) *Fault {
	if fault := l.requests.count(x, key, 1, l.now); fault != nil {
		return fault
	}
	return l.TakeBytes(x, key, max(0, x.Ctx.Request.Header.ContentLength()))
}

// Allows counts something of a key as a request, and reports whether there was room for it.
func (l *RateLimiter) Allows(key [16]byte) bool {
	if l.requests == nil {
		return true
	}
	wait, _, _ := l.requests.take(key, 1, l.now())
	return wait == 0
}

// TakeBytes counts bytes of a body; those that its headers announce, Take has counted.
func (l *RateLimiter) TakeBytes(x *Exchange, key [16]byte, n int) *Fault {
	return l.bytes.count(x, key, n, l.now)
}

// ItemsLeft refuses a key that has no items left, before its body is read for them.
func (l *RateLimiter) ItemsLeft(x *Exchange, key [16]byte) *Fault {
	b := l.items
	if b == nil {
		return nil
	}
	wait, reset := b.empty(key, l.now())
	if wait <= 0 {
		return nil
	}
	b.state(x, 0, reset)
	return b.refuse(wait)
}

// TakeItems counts usage events, or a check, of a request that Take has counted.
func (l *RateLimiter) TakeItems(x *Exchange, key [16]byte, items int) *Fault {
	return l.items.count(x, key, items, l.now)
}

func (b *buckets) count(x *Exchange, key [16]byte, n int, now func() time.Time) *Fault {
	if b == nil {
		return nil
	}
	wait, left, reset := b.take(key, n, now())
	b.state(x, left, reset)
	if wait == 0 {
		return nil
	}
	return b.refuse(wait)
}

// state says in the headers what is left, and in what time all is back. Of the same bucket the
// newest word counts.
func (b *buckets) state(x *Exchange, left int, reset time.Duration) {
	setEntry(x, "RateLimit-Policy", b.name, b.policy)
	setEntry(x, "RateLimit", b.name,
		`"`+b.name+`";r=`+strconv.Itoa(left)+";t="+wholeSeconds(reset))
}

func (b *buckets) refuse(wait time.Duration) *Fault {
	return b.fault.Retry(int((wait + time.Second - 1) / time.Second))
}

// empty is how long a key's bucket has nothing, and how long until it is full.
func (b *buckets) empty(key [16]byte, now time.Time) (wait, reset time.Duration) {
	shard := &b.shards[key[15]%rateShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	full := shard.full[key]
	if !full.After(now) {
		return 0, 0
	}
	reset = full.Sub(now)
	return reset - (b.window - b.window/time.Duration(b.limit)), reset
}

// setEntry replaces a name's entry in a header that is a list, or adds it.
func setEntry(x *Exchange, header, name, entry string) {
	h := &x.Ctx.Response.Header
	if was := h.Peek(header); len(was) > 0 {
		list := strings.Split(string(was), ", ")
		at := slices.IndexFunc(list, func(e string) bool { return strings.HasPrefix(e, `"`+name+`"`) })
		if at < 0 {
			at, list = len(list), append(list, "")
		}
		list[at] = entry
		entry = strings.Join(list, ", ")
	}
	h.Set(header, entry)
}

// take takes n from a key's bucket. What is more than any bucket holds is taken from a full one,
// which is longer in coming back.
func (b *buckets) take(key [16]byte, n int, now time.Time) (wait time.Duration, left int,
	reset time.Duration,
) {
	shard := &b.shards[key[15]%rateShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	full := shard.full[key]
	if full.Before(now) {
		full = now
	}
	each := float64(b.window) / float64(b.limit)
	next := full.Add(time.Duration(each * float64(n)))
	if over := next.Sub(now) - b.window; over > 0 && full.After(now) {
		return min(over, full.Sub(now)), max(0, int(float64(b.window-full.Sub(now))/each)), full.Sub(now)
	}
	if len(shard.full) >= rateKeys {
		shard.sweep(now)
	}
	shard.full[key] = next
	return 0, max(0, int(float64(b.window-next.Sub(now))/each)), next.Sub(now)
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
