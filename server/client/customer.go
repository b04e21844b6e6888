package client

import (
	"github.com/gofrs/uuid/v5"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// customerRequest is the body of POST /customers.
//
//schema:request client CustomerRequest check
type customerRequest struct {
	billing.CreateCustomer
	// Alias is another name for externalClientCustomerId.
	Alias string `json:"customerReferenceId" rule:"min=1,max=128"`
}

func checkCustomerRequest(f *form.Reader, c *customerRequest) {
	if c.ExternalID == "" {
		c.ExternalID = c.Alias
	} else if c.Alias != "" && c.Alias != c.ExternalID {
		f.Problem("customerReferenceId", form.Mistake{
			Code: server.FieldConflict, Text: "must not differ from externalClientCustomerId",
		})
	}
}

// fieldless judges the body of a request that needs none: an object without fields.
func fieldless(x *server.Exchange) *server.Fault { return form.None(x.Body) }

func (a *customers) createCustomer(x *server.Exchange) *server.Fault {
	request := customerRequest{CreateCustomer: billing.CreateCustomer{
		Env: principal(x).Env, ID: newID(),
	}}
	if fault := form.Read(x.Body, &request, readCustomerRequest); fault != nil {
		return fault
	}
	c := &request.CreateCustomer
	minted := c.ExternalID == ""
	if minted {
		c.ExternalID = string(server.AppendUUID(nil, c.ID))
	}
	result, first, fault := a.once(x, billing.KindCreateCustomer, c)
	if fault != nil {
		return fault
	}
	if minted && first.Repeated {
		c.ExternalID = string(server.AppendUUID(nil, first.First))
	}
	if result.Outcome != engine.OutcomeDone {
		return server.FaultOf(result.Outcome)
	}
	location := append([]byte(Prefix+"/customers/"), appendEscaped(nil, c.ExternalID)...)
	x.Ctx.Response.Header.SetBytesV("Location", location)
	return x.Succeed(201)
}

// appendEscaped percent-encodes a path segment.
func appendEscaped(dst []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			c == '-', c == '_', c == '.', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// newID mints a UUIDv7.
func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

// byName is the handler of what is about the customer that the path's first parameter names, by the
// caller's own identifier.
func byName(
	handle func(x *server.Exchange, id string) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		if wrong, ok := form.CheckText(x.Param(0), 1, maxID); !ok {
			return wrong.Fault(x.Route.Parameter(0))
		}
		return handle(x, string(x.Param(0)))
	}
}

// byID is the handler of what is about the record whose UUID is the path's first parameter.
func byID(
	handle func(x *server.Exchange, id [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		id, fault := pathUUID(x, 0)
		if fault != nil {
			return fault
		}
		return handle(x, id)
	}
}

// pathUUID checks a path parameter that is a UUID.
func pathUUID(x *server.Exchange, i int) (id [16]byte, fault *server.Fault) {
	id, ok := server.ParseUUID(x.Param(i))
	if !ok {
		fault = form.NotUUID.Fault(x.Route.Parameter(i))
	}
	return id, fault
}

func query(ctx *fasthttp.RequestCtx, name string) string {
	return string(ctx.QueryArgs().Peek(name))
}

func (a *customers) getCustomer(x *server.Exchange, id string) *server.Fault {
	return a.ofCustomer(x, id, func(customer *billing.CustomerView) *server.Fault {
		return server.One(x, 200, answerOf(a.machine, customer), writeCustomer)
	})
}

// Longest values, in Unicode code points.
const (
	maxID   = 128
	maxName = 128
	maxKey  = 255
)

// The views' tags say how the API shapes them. What is null is left out; empty texts and lists that
// the document requires are sent.

// customerAnswer is a customer with what it has.
//
//schema:answer client Customer
type customerAnswer struct {
	billing.CustomerView
	// Subscriptions are the active ones.
	Subscriptions []billing.SubscriptionView `json:"subscriptions" ref:"Subscription"`
	Pools         []billing.PoolView         `json:"creditPools" ref:"CreditPool" with:"billingview.WriteCreditPool"`
}

func answerOf(m *billing.Machine, customer *billing.CustomerView) *customerAnswer {
	answer := customerAnswer{CustomerView: *customer, Pools: m.Pools(customer.Row)}
	for _, s := range m.Subscriptions(customer.Row) {
		if s.IsActive {
			answer.Subscriptions = append(answer.Subscriptions, s)
		}
	}
	return &answer
}

// clockRoutes are the rows about the environment's clock.
func (a *customers) clockRoutes() []server.Route {
	return []server.Route{
		row("GET", "/clock", "getClock", "The environment's time, by which events are dated",
			server.AccessRead, a.getClock, reads, answers(server.Object(
				server.Must("now", server.TimeSchema),
				server.Must("earliest", server.TimeSchema.Explain("no earlier occurredAt is taken")),
				server.Must("latest", server.TimeSchema.Explain("no later occurredAt is taken"))))),
	}
}

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
