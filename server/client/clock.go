package client

import (
	"tollgate/server"
)

// clockRoutes are the rows about the environment's clock.
func (a *customers) clockRoutes() []server.Route {
	return []server.Route{
		row("GET", "/clock", "getClock", "The environment's time: that of events which happen now",
			server.AccessRead, a.getClock, reads, answers(server.Object(
				server.Must("now", server.TimeSchema),
				server.Must("earliest", timeAbout("no earlier occurredAt is taken")),
				server.Must("latest", timeAbout("no later occurredAt is taken"))))),
	}
}

func timeAbout(about string) *server.Schema {
	return &server.Schema{Type: "string", Format: "date-time", About: about}
}

// getClock is GET /clock.
func (a *customers) getClock(x *server.Exchange) *server.Fault {
	return a.read(x, func() *server.Fault {
		now, earliest, latest := a.machine.UsageWindow(principal(x).Env, a.nowMS())
		return x.Object(200, func(data *server.JSON) {
			data.Time("now", now)
			data.Time("earliest", earliest)
			data.Time("latest", latest)
		})
	})
}
