package client

import (
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// object reads the body of a request that is no hot path: fields by name, each read by its
// function. Duplicate and unknown names are refused.
func object(
	body []byte, fields map[string]func(f *form) bool, check func(f *form),
) *server.Fault {
	var f form
	f.reset(body)
	if fault := f.enter(); fault != nil {
		return fault
	}
	seen := make(map[string]bool, len(fields))
	for first := true; ; first = false {
		name, more := f.scanner.Name(first)
		if !more {
			break
		}
		read, known := fields[string(name)]
		if known && seen[string(name)] {
			return duplicateFault(name)
		}
		if !known {
			f.unknown(name)
			continue
		}
		seen[string(name)] = true
		if !read(&f) {
			break
		}
	}
	if f.scanner.Err() != nil {
		return f.fault()
	}
	check(&f)
	return f.leave()
}

// fieldless judges the body of a request that needs none: an object without fields.
func fieldless(x *server.Exchange) *server.Fault { return object(x.Body, nil, func(*form) {}) }

// blankable reads an optional string; "" sets a bit of blank, for it is a value and null is none.
func blankable(name string, most int, bit uint8, blank *uint8, dst *string) func(*form) bool {
	return func(f *form) bool {
		var value []byte
		given, ok := f.text(name, 0, most, &value)
		if given && len(value) == 0 {
			*blank |= bit
		}
		*dst = string(value)
		return ok
	}
}

// requiredField reads a string that must be there.
func requiredField(name string, most int, dst *string) func(*form) bool {
	return func(f *form) bool {
		var value []byte
		ok := f.required(name, most, &value)
		*dst = string(value)
		return ok
	}
}

// mustHave notes the required fields that were not there at all.
func (f *form) mustHave(fields ...struct{ name, value string }) {
	for _, field := range fields {
		if field.value == "" && !f.wronged(field.name) {
			f.problem(field.name, server.FieldRequired, "is required")
		}
	}
}

func named(name, value string) struct{ name, value string } {
	return struct{ name, value string }{name, value}
}

// createCustomer is POST /customers.
func (a *API) createCustomer(x *server.Exchange) {
	c := billing.CreateCustomer{Env: x.Principal.Env, ID: newID()}
	var alias string
	fault := object(x.Body, map[string]func(*form) bool{
		"externalClientCustomerId": requiredIfGiven("externalClientCustomerId", &c.ExternalID),
		"customerReferenceId":      requiredIfGiven("customerReferenceId", &alias),
		"firstName":                requiredField("firstName", longestName, &c.FirstName),
		"lastName":                 requiredField("lastName", longestName, &c.LastName),
		"email":                    requiredField("email", longestEmail, &c.Email),
		"phoneNumber": blankable("phoneNumber", longestPhone, billing.CustomerPhoneNumber,
			&c.Blank, &c.PhoneNumber),
		"address": blankable("address", longestAddress, billing.CustomerAddress, &c.Blank, &c.Address),
	}, func(f *form) {
		f.mustHave(named("firstName", c.FirstName), named("lastName", c.LastName),
			named("email", c.Email))
		if c.Email != "" && !plausibleEmail(c.Email) {
			f.problem("email", server.FieldFormat, "must be an e-mail address")
		}
		if c.ExternalID == "" {
			c.ExternalID = alias
		} else if alias != "" && alias != c.ExternalID {
			f.problem("customerReferenceId", server.FieldConflict,
				"must not differ from externalClientCustomerId")
		}
	})
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	minted := c.ExternalID == ""
	if minted {
		c.ExternalID = string(server.AppendUUID(nil, c.ID))
	}
	result, first, fault := a.once(x, billing.KindCreateCustomer, wire.Encode(nil, &c))
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	if minted && first.Repeated {
		c.ExternalID = string(server.AppendUUID(nil, first.First))
	}
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	location := append([]byte(Prefix+"/customers/"), appendEscaped(nil, c.ExternalID)...)
	x.Ctx.Response.Header.SetBytesV("Location", location)
	x.Succeed(201)
}

// requiredIfGiven reads an identifier that may be absent, but not empty.
func requiredIfGiven(name string, dst *string) func(*form) bool {
	return func(f *form) bool {
		var value []byte
		_, ok := f.text(name, 1, longestID, &value)
		*dst = string(value)
		return ok
	}
}

// plausibleEmail checks the form name@host only: whether mail arrives, only mail can tell.
func plausibleEmail(text string) bool {
	local, host, found := strings.Cut(text, "@")
	return found && local != "" && host != "" && !strings.ContainsAny(text, " \t<>\",;()") &&
		!strings.Contains(host, "@") && !strings.HasPrefix(host, ".") && !strings.HasSuffix(host, ".")
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

// pathID checks a path parameter that is a caller's identifier.
func pathID(x *server.Exchange, i int, name string) (string, bool) {
	if code, reason := textProblem(x.Param(i), 1, longestID); reason != "" {
		x.Refuse(*server.FieldFault(name, code, reason))
		return "", false
	}
	return string(x.Param(i)), true
}

// pathUUID checks a path parameter that is a UUID.
func pathUUID(x *server.Exchange, i int, name string) (id [16]byte, ok bool) {
	if id, ok = server.ParseUUID(x.Param(i)); !ok {
		x.Refuse(*server.FieldFault(name, server.FieldFormat, "must be a UUID"))
	}
	return id, ok
}

// refuseQuery notes a query parameter's wrong value.
func refuseQuery(x *server.Exchange, name, want string) {
	x.Refuse(*server.FieldFault(name, server.FieldNotAllowed, "must be "+want))
}

func query(ctx *fasthttp.RequestCtx, name string) string {
	return string(ctx.QueryArgs().Peek(name))
}

// getCustomer is GET /customers/{externalClientCustomerId}.
func (a *API) getCustomer(x *server.Exchange) {
	id, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		customer, found := a.machine.Customer(x.Principal.Env, id)
		if !found {
			return notFound(engine.OutcomeCustomerUnknown)
		}
		writeCustomer(x.Begin(), &customer, a.machine.Subscriptions(customer.Row),
			a.machine.Pools(customer.Row))
		x.End(200)
		return nil
	})
}

func notFound(o engine.Outcome) *server.Fault {
	f := server.FaultOf(o)
	return &f
}
