package admin

import (
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
)

// clockRoutes are the rows about an environment's clock.
func (a *clocks) clockRoutes() []server.Route {
	return []server.Route{
		{
			Method: "POST", Path: environment + "/clock", Operation: "advanceClock",
			Summary: "Move a sandbox's clock forward; answers when all that is due by then has happened",
			Access:  server.AccessOperator, Handle: a.advanceClock,
			Params: environmentAnd(inQuery("waitSeconds", server.IntSchema(0, maxSettleWait),
				"how long to wait for that before the answer is that it goes on; 60 when absent")),
			Body:      server.Object(server.Must("advanceTo", server.TimeSchema)),
			Responses: answers(server.RefTo("Clock")),
		},
		{
			Method: "GET", Path: environment + "/clock", Operation: "showClock",
			Summary: "The environment's time, and whether all that is due by then has happened",
			Access:  server.AccessOperator, Handle: a.showClock, Params: environmentParams,
			Responses: answers(server.RefTo("Clock")),
		},
	}
}

// What waiting for a clock is bounded by.
const (
	settlePatience = 60 * time.Second
	settlePause    = 10 * time.Millisecond
	maxSettleWait  = 60 // seconds
)

// advanceClock is POST …/clock.
func (a *clocks) advanceClock(x *server.Exchange) {
	c := billing.AdvanceClock{Actor: x.By()}
	var w walk
	fault := body(x, &w, map[string]reader{"advanceTo": w.instant(&c.To)}, "advanceTo")
	patience := a.settling
	if text := string(x.Ctx.QueryArgs().Peek("waitSeconds")); fault == nil && text != "" {
		n, ok := server.WholeNumber(text, 0, maxSettleWait)
		if !ok {
			w.problem("waitSeconds", server.FieldOutOfRange, "must be from 0 to %d", maxSettleWait)
		}
		patience, fault = min(patience, time.Duration(n)*time.Second), w.fault()
	}
	if fault != nil {
		x.Refuse(fault)
		return
	}
	var ok bool
	if c.Env, ok = a.locate(x); !ok {
		return
	}
	if !a.done(x, billing.KindAdvanceClock, &c) {
		return
	}
	if fault := a.settle(x, &c, patience); fault != nil {
		x.Refuse(fault)
		return
	}
	a.writeClock(x, c.Env, true)
}

// settle waits until all has happened that is due by the instant to which the clock was moved. What
// falls due while it waits, since the clock runs on, is not waited for.
func (a *clocks) settle(
	x *server.Exchange, c *billing.AdvanceClock, patience time.Duration,
) *server.Fault {
	deadline := time.Now().Add(patience)
	timer := time.NewTimer(settlePause)
	defer timer.Stop()
	for {
		settled := false
		fault := a.look(func() *server.Fault {
			settled = a.machine.ClockSettledTo(c.Env, c.To)
			return nil
		})
		if fault == nil && settled {
			return nil
		}
		if !time.Now().Before(deadline) {
			break
		}
		timer.Reset(settlePause)
		select {
		case <-timer.C:
			continue
		case <-x.Ctx.Done(): // the listener shuts down
		}
		break
	}
	return server.NewFault(503, "clock_settling", "The clock was advanced, and what falls due by "+
		"then is still happening").With("Do not repeat the request. GET the clock until settled is " +
		"true.").Retry(1)
}

// showClock is GET …/clock.
func (a *clocks) showClock(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		a.writeClock(x, env, a.machine.ClockSettled(env))
		return nil
	})
}

// clockAnswer is an environment's clock.
//
//schema:answer admin Clock
type clockAnswer struct {
	Now     int64 `json:"now" as:"time"`
	Settled bool  `json:"settled"`
}

func (a *clocks) writeClock(x *server.Exchange, env uint32, settled bool) {
	now := a.machine.EnvironmentNow(env, time.Now().UnixMilli())
	server.One(x, 200, &clockAnswer{now, settled}, writeClock)
}
