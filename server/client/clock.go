package client

import (
	"tollgate/engine"
	"tollgate/server"
)

// clockRoutes are the rows about the environment's clock.
func (a *API) clockRoutes() []server.Route {
	return []server.Route{{
		Method: "GET", Path: Prefix + "/clock", Operation: "getClock",
		Summary: "The environment's time: that of events which happen now",
		Access:  server.AccessRead, Handle: a.getClock,
		Params: []server.Param{consistencyHeader},
		Responses: answers(server.Object(
			server.Must("now", server.TimeSchema),
			server.Must("earliest", timeAbout("no earlier occurredAt is taken")),
			server.Must("latest", timeAbout("no later occurredAt is taken")),
		)),
	}}
}

func timeAbout(about string) *server.Schema {
	return &server.Schema{Type: "string", Format: "date-time", About: about}
}

// getClock is GET /clock.
func (a *API) getClock(x *server.Exchange) {
	a.read(x, func() *server.Fault {
		now, earliest, latest := a.machine.UsageWindow(x.Principal.Env, a.nowMS())
		data := x.Begin()
		data.Open('{')
		data.Time("now", now)
		data.Time("earliest", earliest)
		data.Time("latest", latest)
		data.Close('}')
		x.End(200)
		return nil
	})
}

// refusal is the answer to a usage event that was not recorded. One that is out of time learns the
// environment's clock: a test clock may be years ahead of the sender's.
func (a *API) refusal(env uint32, r engine.Result) server.Fault {
	fault := server.FaultOfResult(r)
	if o := r.Outcome; o == engine.OutcomeOccurredTooEarly || o == engine.OutcomeOccurredTooLate {
		now, earliest, latest := a.machine.UsageWindow(env, a.nowMS())
		at := func(ms int64) string { return string(server.AppendTime(nil, ms)) }
		fault.Detail = "Nothing was recorded. The environment's clock reads " + at(now) +
			": occurredAt must be from " + at(earliest) + " to " + at(latest) + "."
	}
	return fault
}
