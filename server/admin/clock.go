package admin

import (
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// clockRoutes are the rows about an environment's clock.
func (a *clocks) clockRoutes() []server.Route {
	return []server.Route{
		row("POST", environment+"/clock", "advanceClock",
			"Move a sandbox's clock forward; answers when all that is due by then has happened",
			a.advanceClock, server.Takes(server.DocumentSchema[billing.AdvanceClock]()),
			server.Asks(server.InQuery("waitSeconds", server.IntSchema(0, maxSettleWait),
				"how long to wait for that before the answer is that it goes on; 60 when absent")),
			answers(server.RefTo("Clock"))),
		row("GET", environment+"/clock", "showClock",
			"The environment's time, and whether all that is due by then has happened",
			a.within(a.showClock), answers(server.RefTo("Clock"))),
	}
}

// What waiting for a clock is bounded by.
const (
	settlePatience = 60 * time.Second
	settlePause    = 10 * time.Millisecond
	maxSettleWait  = 60 // seconds
)

func (a *clocks) advanceClock(x *server.Exchange) *server.Fault {
	c := billing.AdvanceClock{Actor: x.By()}
	var w walk
	fault := tagged(x, &w, &c, nil)
	patience := a.settling
	if text := string(x.Ctx.QueryArgs().Peek("waitSeconds")); fault == nil && text != "" {
		n, ok := server.WholeNumber(text, 0, maxSettleWait)
		w.wrong(!ok, "waitSeconds", form.Outside(0, maxSettleWait))
		patience, fault = min(patience, time.Duration(n)*time.Second), w.fault()
	}
	if fault == nil {
		c.Env, fault = a.locate(x)
	}
	from := a.machine.EnvironmentNow(c.Env, a.nowMS())
	if fault == nil {
		fault = a.done(x, billing.KindAdvanceClock, &c)
	}
	if fault == nil {
		fault = a.settle(x, &c, patience)
	}
	if fault != nil {
		return fault
	}
	fell := a.machine.FellDue(c.Env, from, c.To)
	return a.answerClock(x, c.Env, clockAnswer{
		Settled: true, Issued: fell.Issued, PastDue: fell.PastDue, Suspended: fell.Suspended,
		Ended: fell.Ended,
	})
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
		fault := a.read(x, func() *server.Fault {
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
	return faultSettling
}

var faultSettling = server.NewFault(503, "clock_settling", "The clock was advanced, and renewals "+
	"due by then are still running").With("Do not repeat the request. GET the clock until settled is " +
	"true.").Retry(1)

func (a *clocks) showClock(x *server.Exchange, env uint32) *server.Fault {
	return a.answerClock(x, env, clockAnswer{Settled: a.machine.ClockSettled(env)})
}

// clockAnswer is an environment's clock.
//
//schema:answer admin Clock
type clockAnswer struct {
	Now     int64 `json:"now" as:"time"`
	Settled bool  `json:"settled"`
	// Issued and the other counts are what an advance did, absent where it did none of that, or the
	// environment has more than 20,000 customers.
	Issued    uint32 `json:"invoicesIssued,omitzero"`
	PastDue   uint32 `json:"invoicesPastDue,omitzero"`
	Suspended uint32 `json:"subscriptionsSuspended,omitzero"`
	Ended     uint32 `json:"subscriptionsEnded,omitzero"`
}

func (a *clocks) answerClock(x *server.Exchange, env uint32, c clockAnswer) *server.Fault {
	c.Now = a.machine.EnvironmentNow(env, a.nowMS())
	return server.One(x, 200, &c, writeClock)
}
