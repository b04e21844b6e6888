package client

import (
	"tollgate/server"
)

// clockRoutes are the rows about the environment's clock.
func (a *customers) clockRoutes() []server.Route {
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
func (a *customers) getClock(x *server.Exchange) {
	a.read(x, func() *server.Fault {
		now, earliest, latest := a.machine.UsageWindow(principal(x).Env, a.nowMS())
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
