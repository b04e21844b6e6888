// Package leader runs work that only the leader of a group does: deliveries, payments, runs.
package leader

import (
	"context"
	"time"
)

// Loop finds jobs and carries them out while this node leads. Only the goroutine of Run calls Due,
// Take, Begin and the function that Take returns, so their shared state needs no lock; each job has
// a goroutine that calls Do.
type Loop[K comparable, J any] struct {
	// Leads reports whether this node leads; the term distinguishes leaderships.
	Leads func() (term uint64, ok bool)
	// Every is how often Due is asked. It is asked, too, whenever a job has ended.
	Every time.Duration
	// Now is the clock by which keys rest; time.Now when nil.
	Now func() time.Time
	// Due offers what could begin now, the most urgent first. It need not offer everything at a
	// time. A key that is not idle is under way or rests, and is skipped if it is offered.
	Due func(idle func(K) bool, offer func(K, J))
	// Take reserves the resources of a job, and returns a function that releases them; false where
	// the job has to wait. Nil reserves nothing.
	Take func(J) (land func(), ok bool)
	// Do carries out a job. The key then rests for a while; one that failed is counted, until the
	// job succeeds or is due no more.
	Do func(ctx context.Context, key K, job J, failures int) (rest time.Duration, failed bool)
	// OfTerm ends the context of Do with the term. Otherwise it lasts as long as Run.
	OfTerm bool
	// Begin is called when a term of this node begins.
	Begin func()

	keys   map[K]*state
	landed chan landing[K]
	flying int
	round  uint64
}

// state is the state of a key.
type state struct {
	flying   bool
	until    time.Time // it rests
	failures int
	seen     uint64 // the round that it was due in last
}

// landing is a job that has ended.
type landing[K comparable] struct {
	key    K
	free   func()
	rest   time.Duration
	failed bool
	cut    bool // by its term
}

// Run works until ctx ends, and returns once no job is under way.
func (l *Loop[K, J]) Run(ctx context.Context) {
	if l.Now == nil {
		l.Now = time.Now
	}
	l.keys, l.landed = map[K]*state{}, make(chan landing[K])
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	var led uint64 // the term that jobs belong to
	jobs, end := ctx, context.CancelFunc(func() {})
	for {
		select {
		case <-ctx.Done():
			end()
			for l.flying > 0 {
				l.land(<-l.landed)
			}
			return
		case <-tick.C:
		case ended := <-l.landed:
			l.land(ended)
		}
		term, leads := l.Leads()
		if !leads {
			term = 0
		}
		if term != led {
			end()
			if led = term; leads && l.OfTerm {
				jobs, end = context.WithCancel(ctx)
			}
			if leads && l.Begin != nil {
				l.Begin()
			}
		}
		if leads && ctx.Err() == nil {
			l.look(jobs)
		}
	}
}

// look begins the jobs that can begin.
func (l *Loop[K, J]) look(ctx context.Context) {
	l.round++
	now := l.Now()
	idle := func(key K) bool {
		s := l.keys[key]
		return s == nil || !s.flying && !now.Before(s.until)
	}
	l.Due(idle, func(key K, job J) {
		s := l.keys[key]
		if s != nil {
			s.seen = l.round
		}
		if !idle(key) {
			return
		}
		land, ok := func() {}, true
		if l.Take != nil {
			land, ok = l.Take(job)
		}
		if !ok {
			return
		}
		if s == nil {
			s = &state{seen: l.round}
			l.keys[key] = s
		}
		s.flying = true
		l.flying++
		go func(failures int) {
			ended := landing[K]{key: key, free: land}
			ended.rest, ended.failed = l.Do(ctx, key, job, failures)
			ended.cut = ctx.Err() != nil
			l.landed <- ended
		}(s.failures)
	})
	for key, s := range l.keys {
		if idle(key) && (s.failures == 0 || s.seen != l.round) {
			delete(l.keys, key)
		}
	}
}

// land notes that a job has ended. One that was cut off proves nothing about its key.
func (l *Loop[K, J]) land(ended landing[K]) {
	l.flying--
	ended.free()
	s := l.keys[ended.key]
	s.flying = false
	switch {
	case ended.cut:
		return
	case ended.failed:
		s.failures++
	default:
		s.failures = 0
	}
	s.until = l.Now().Add(ended.rest)
}

// Slots is how many more jobs may be under way.
type Slots int

// Take takes a slot, and returns a function that releases it.
func (s *Slots) Take() (land func(), ok bool) {
	if *s == 0 {
		return nil, false
	}
	*s--
	return func() { *s++ }, true
}
