package client

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/scan"
)

// This file has the readers and writers as they were written by hand, before server/form and
// generated code replaced them. TestReadersAgreeWithThoseByHand and TestWritersAgreeWithThoseByHand
// compare both.

// Longest values, in Unicode code points (meta: bytes of compact JSON).
const (
	maxPhone   = 64
	maxAddress = 500
	maxEmail   = 254
	maxMeta    = 8 << 10
)

// handForm reads the fields of one JSON object and collects everything that is wrong with them.
type handForm struct {
	scanner  scan.Scanner
	problems []server.FieldError
	repeats  int // the bytes of unknown names in problems
	seen     uint64
	inner    []byte // the name that an object within the object has twice
}

func (f *handForm) reset(body []byte) {
	f.scanner.Reset(body)
	f.begin()
}

// begin starts another object of the same text.
func (f *handForm) begin() {
	f.problems, f.repeats, f.seen, f.inner = f.problems[:0], 0, 0, nil
}

// problem notes what is wrong with a field.
func (f *handForm) problem(name string, code server.FieldCode, text string) {
	f.problems = append(f.problems, server.FieldError{
		Field: name, Code: code, Message: name + " " + text,
	})
}

// maxRepeated bounds what an answer repeats of the request, in bytes.
const maxRepeated = 1024

// unknown notes a field that the object does not have, and passes it.
func (f *handForm) unknown(name []byte) bool {
	if f.repeats < maxRepeated {
		shown := string(name[:min(len(name), 64)])
		f.repeats += len(shown) + 16
		f.problems = append(f.problems, server.FieldError{
			Field: cmp.Or(shown, "body"), Code: server.FieldUnknown,
			Message: strconv.Quote(shown) + " is not a field of this request",
		})
	}
	return f.scanner.Skip()
}

// once reports whether field number i was not there yet; twice is malformed.
func (f *handForm) once(i uint) bool {
	first := f.seen&(1<<i) == 0
	f.seen |= 1 << i
	return first
}

// duplicate answers a known field that appears more than once: name, or one within it.
func (f *handForm) duplicate(name []byte) *server.Fault {
	if f.inner != nil {
		name = f.inner
	}
	return duplicateFault(name)
}

// duplicateFault answers a known field that appears more than once.
func duplicateFault(name []byte) *server.Fault {
	return server.FaultJSON.With("The name " + strconv.Quote(string(name)) + " appears twice.")
}

// fault is what the reading came to: nil when all is well.
func (f *handForm) fault() *server.Fault {
	if err := f.scanner.Err(); err != nil {
		return server.FaultJSON.With(err.Error())
	}
	if len(f.problems) > 0 {
		return server.FieldsFault(slices.Clone(f.problems))
	}
	return nil
}

// absent passes a null, which stands for a field that is not there.
func (f *handForm) absent() bool {
	if f.scanner.Peek() != scan.KindNull {
		return false
	}
	_, ok := f.scanner.Literal()
	return ok
}

// wrong notes a value of the wrong type and passes it.
func (f *handForm) wrong(name, want string) bool {
	kind := f.scanner.Peek()
	if kind == scan.KindNone {
		return f.scanner.Skip()
	}
	f.problem(name, server.FieldType, "must be "+want+", not "+kind.String())
	return f.scanner.Skip()
}

// text reads a string of minimum to maximum characters. given is false for null and for what is
// wrong.
func (f *handForm) text(name string, minimum, maximum int, dst *[]byte) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindString {
		return false, f.wrong(name, "a string")
	}
	value, ok := f.scanner.Text()
	if !ok {
		return false, false
	}
	if code, reason := textProblem(value, minimum, maximum); reason != "" {
		f.problem(name, code, reason)
		return false, true
	}
	*dst = value
	return true, true
}

// textProblem says what is wrong with a text; empty when nothing is.
func textProblem(value []byte, minimum, maximum int) (code server.FieldCode, reason string) {
	count := 0
	for i := 0; i < len(value); count++ {
		c := value[i]
		if c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return server.FieldFormat, "must not have control characters"
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(value[i:])
		if r == utf8.RuneError && size == 1 {
			return server.FieldFormat, "must be UTF-8"
		}
		if r <= 0x9f {
			return server.FieldFormat, "must not have control characters"
		}
		i += size
	}
	switch {
	case count < minimum && minimum == 1:
		return server.FieldEmpty, "must not be empty"
	case count > maximum:
		return server.FieldTooLong, "must have at most " + strconv.Itoa(maximum) + " characters"
	default:
		return "", ""
	}
}

// uuid reads a UUID.
func (f *handForm) uuid(name string, dst *[16]byte) bool {
	if f.absent() {
		return true
	}
	if f.scanner.Peek() != scan.KindString {
		return f.wrong(name, "a UUID in a string")
	}
	value, ok := f.scanner.Text()
	if !ok {
		return false
	}
	id, valid := server.ParseUUID(value)
	if !valid || id == ([16]byte{}) {
		f.problem(name, server.FieldFormat, "must be a UUID")
		return true
	}
	*dst = id
	return true
}

// number reads an exact number.
func (f *handForm) number(name string, dst *decimal.Decimal) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindNumber {
		return false, f.wrong(name, "a number")
	}
	text, ok := f.scanner.Number()
	if !ok {
		return false, false
	}
	value, err := decimal.Parse(text)
	if err != nil {
		f.problem(name, server.FieldOutOfRange, "must be a number, exact to 12 decimal places and within 10^24")
		return false, true
	}
	*dst = value
	return true, true
}

// instant reads an RFC 3339 time as milliseconds since 1970 UTC.
func (f *handForm) instant(name string, dst *int64) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindString {
		return false, f.wrong(name, "an RFC 3339 time in a string")
	}
	text, ok := f.scanner.Text()
	if !ok {
		return false, false
	}
	ms, valid := server.ParseInstant(text)
	if !valid {
		f.problem(name, server.FieldFormat,
			"must be an RFC 3339 time such as 2026-01-31T15:00:00.000Z")
		return false, true
	}
	*dst = ms
	return true, true
}

// object reads a free-form object, compact, into dst's memory.
func (f *handForm) object(name string, dst []byte) (compact []byte, ok bool) {
	if f.absent() {
		return dst[:0], true
	}
	if f.scanner.Peek() != scan.KindObject {
		return dst[:0], f.wrong(name, "an object")
	}
	if dst, ok = f.scanner.AppendCompact(dst[:0]); ok && len(dst) > maxMeta {
		f.problem(name, server.FieldTooLong, "must have at most 8192 bytes as compact JSON")
		dst = dst[:0]
	}
	return dst, ok
}

// enter begins the body's object; a body that is another kind of value, or none, is a fault.
func (f *handForm) enter() *server.Fault {
	switch kind := f.scanner.Peek(); kind {
	case scan.KindObject:
		if f.scanner.Object() {
			return nil
		}
		return f.fault()
	case scan.KindNone:
		return server.FaultJSON.With("The body must be a JSON object.")
	default:
		if !f.scanner.Skip() {
			return f.fault()
		}
		return server.FieldsFault([]server.FieldError{{
			Field: "body", Code: server.FieldType,
			Message: "the body must be a JSON object, not " + kind.String(),
		}})
	}
}

// leave checks that nothing follows the body's object.
func (f *handForm) leave() *server.Fault {
	f.scanner.End()
	return f.fault()
}

// required reads a string that must be there and not be empty.
func (f *handForm) required(name string, maximum int, dst *[]byte) bool {
	before := len(f.problems)
	given, ok := f.text(name, 1, maximum, dst)
	if ok && !given && len(f.problems) == before {
		f.problem(name, server.FieldRequired, "is required")
	}
	return ok
}

// hasProblem reports whether something was noted about a field already, so that its absence is not
// news.
func (f *handForm) hasProblem(name string) bool {
	return slices.ContainsFunc(f.problems, func(e server.FieldError) bool { return e.Field == name })
}

// object reads the body of a request that is not a hot path: fields by name, each read by its
// function. Duplicate and unknown names are refused.
func object(
	body []byte, fields map[string]func(f *handForm) bool, check func(f *handForm),
) *server.Fault {
	var f handForm
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

// blankable reads an optional string; "" sets a bit of blank: it is a value, null is not.
func blankable(
	name string, maximum int, bit uint8, blank *uint8, dst *string,
) func(*handForm) bool {
	return func(f *handForm) bool {
		var value []byte
		given, ok := f.text(name, 0, maximum, &value)
		if given && len(value) == 0 {
			*blank |= bit
		}
		*dst = string(value)
		return ok
	}
}

// requiredField reads a string that must be there.
func requiredField(name string, maximum int, dst *string) func(*handForm) bool {
	return func(f *handForm) bool {
		var value []byte
		ok := f.required(name, maximum, &value)
		*dst = string(value)
		return ok
	}
}

// mustHave notes the required fields that were not there at all.
func (f *handForm) mustHave(fields ...struct{ name, value string }) {
	for _, field := range fields {
		if field.value == "" && !f.hasProblem(field.name) {
			f.problem(field.name, server.FieldRequired, "is required")
		}
	}
}

func named(name, value string) struct{ name, value string } {
	return struct{ name, value string }{name, value}
}

// requiredIfGiven reads an identifier that may be absent, but not empty.
func requiredIfGiven(name string, dst *string) func(*handForm) bool {
	return func(f *handForm) bool {
		var value []byte
		_, ok := f.text(name, 1, maxID, &value)
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

// changed reads a field that is changed when it is there; null clears where that is possible.
func changed(
	name string, maximum int, bit uint8, c *billing.UpdateCustomer, dst *string,
) func(*handForm) bool {
	return func(f *handForm) bool {
		clearable := bit == billing.CustomerPhoneNumber || bit == billing.CustomerAddress
		least := 1
		if clearable {
			least = 0
		}
		if f.absent() {
			if clearable {
				c.Set |= bit
			} else {
				f.problem(name, server.FieldRequired, "must not be null")
			}
			return true
		}
		var value []byte
		given, ok := f.text(name, least, maximum, &value)
		if given {
			*dst = string(value)
			c.Set |= bit
			if len(value) == 0 {
				c.Blank |= bit
			}
		}
		return ok
	}
}

// graceDays reads a whole number of days.
func graceDays(f *handForm, dst *uint32) bool {
	var value decimal.Decimal
	given, ok := f.number("gracePeriod", &value)
	if !given {
		return ok
	}
	for days := range uint32(366) {
		if value == decimal.FromInt(int64(days)) {
			*dst = days
			return true
		}
	}
	f.problem("gracePeriod", server.FieldOutOfRange, "must be a whole number from 0 to 365")
	return true
}

func reasonField(dst *string) func(*handForm) bool {
	return func(f *handForm) bool {
		var value []byte
		_, ok := f.text("reason", 0, 500, &value)
		*dst = string(value)
		return ok
	}
}

func amendedUnits(f *handForm, dst *decimal.Decimal, given *bool) (ok bool) {
	before := len(f.problems)
	*given, ok = f.number("usageUnits", dst)
	if *given && dst.Sign() < 0 {
		f.problem("usageUnits", server.FieldOutOfRange, "must not be negative")
	}
	*given = *given || len(f.problems) > before
	return ok
}

func (f *handForm) requireUnits(given bool) {
	if !given {
		f.problem("usageUnits", server.FieldRequired, "is required")
	}
}

func handCustomer(body []byte, c *billing.CreateCustomer) *server.Fault {
	var alias string
	return object(body, map[string]func(*handForm) bool{
		"externalClientCustomerId": requiredIfGiven("externalClientCustomerId", &c.ExternalID),
		"customerReferenceId":      requiredIfGiven("customerReferenceId", &alias),
		"firstName":                requiredField("firstName", maxName, &c.FirstName),
		"lastName":                 requiredField("lastName", maxName, &c.LastName),
		"email":                    requiredField("email", maxEmail, &c.Email),
		"phoneNumber": blankable("phoneNumber", maxPhone, billing.CustomerPhoneNumber,
			&c.Blank, &c.PhoneNumber),
		"address": blankable("address", maxAddress, billing.CustomerAddress, &c.Blank, &c.Address),
	}, func(f *handForm) {
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
}

func handChange(body []byte, c *billing.UpdateCustomer) *server.Fault {
	return object(body, map[string]func(*handForm) bool{
		"firstName": changed("firstName", maxName, billing.CustomerFirstName, c, &c.FirstName),
		"lastName":  changed("lastName", maxName, billing.CustomerLastName, c, &c.LastName),
		"email":     changed("email", maxEmail, billing.CustomerEmail, c, &c.Email),
		"phoneNumber": changed("phoneNumber", maxPhone, billing.CustomerPhoneNumber, c,
			&c.PhoneNumber),
		"address": changed("address", maxAddress, billing.CustomerAddress, c, &c.Address),
	}, func(f *handForm) {
		if c.Set&billing.CustomerEmail != 0 && !plausibleEmail(c.Email) {
			f.problem("email", server.FieldFormat, "must be an e-mail address")
		}
	})
}

func handSubscription(body []byte, c *billing.CreateSubscription) *server.Fault {
	c.GraceDays = 7
	return object(body, map[string]func(*handForm) bool{
		"planId":              requiredField("planId", maxID, &c.Plan),
		"customerReferenceId": requiredField("customerReferenceId", maxID, &c.Customer),
		"gracePeriod":         func(f *handForm) bool { return graceDays(f, &c.GraceDays) },
	}, func(f *handForm) {
		f.mustHave(named("planId", c.Plan), named("customerReferenceId", c.Customer))
	})
}

func handPlanChange(body []byte, c *billing.ChangePlan) *server.Fault {
	changeTypes := map[string]billing.ChangeType{
		"UPGRADE": billing.ChangeUpgrade, "DOWNGRADE": billing.ChangeDowngrade,
	}
	var kind string
	return object(body, map[string]func(*handForm) bool{
		"changeToPlanId": requiredField("changeToPlanId", maxID, &c.Plan),
		"changeType":     requiredField("changeType", maxName, &kind),
	}, func(f *handForm) {
		f.mustHave(named("changeToPlanId", c.Plan), named("changeType", kind))
		var known bool
		if c.Type, known = changeTypes[kind]; !known && kind != "" {
			f.problem("changeType", server.FieldNotAllowed, "must be UPGRADE or DOWNGRADE")
		}
	})
}

func handAmendment(body []byte, c *billing.AmendUsage) *server.Fault {
	given := false
	return object(body, map[string]func(*handForm) bool{
		"reason":     reasonField(&c.Reason),
		"usageUnits": func(f *handForm) bool { return amendedUnits(f, &c.Units, &given) },
	}, func(f *handForm) { f.requireUnits(given) })
}

type handEvent struct {
	form   handForm
	record billing.RecordUsage
	units  bool
	timed  bool
	meta   []byte
}

// read fills in.record from the object that the form is before. header, when it is not empty,
// overrides the event's own idempotency key.
func (in *handEvent) read(env uint32, header []byte) *server.Fault {
	in.form.begin()
	in.record = billing.RecordUsage{Env: env}
	in.units, in.timed = false, false
	if fault := in.form.enter(); fault != nil {
		return fault
	}
	for first := true; ; first = false {
		name, more := in.form.scanner.Name(first)
		if !more {
			break
		}
		ok, fresh := in.field(name)
		if !fresh {
			return in.form.duplicate(name)
		}
		if !ok {
			break
		}
	}
	if in.form.scanner.Err() != nil {
		return in.form.fault()
	}
	in.complete(header)
	return in.form.fault()
}

// field reads one field's value; fresh is false when the field was there before.
func (in *handEvent) field(name []byte) (ok, fresh bool) {
	f, r := &in.form, &in.record
	switch string(name) {
	case "eventIdempotencyKey":
		if fresh = f.once(fieldKey); fresh {
			_, ok = f.text("eventIdempotencyKey", 1, maxKey, &r.KeyText)
		}
	case "eventName":
		if fresh = f.once(fieldName); fresh {
			_, ok = f.text("eventName", 1, maxName, &r.EventName)
		}
	case "occurredAt":
		if fresh = f.once(fieldOccurredAt); fresh {
			in.timed, ok = f.instant("occurredAt", &r.OccurredAt)
		}
	case "flowId":
		if fresh = f.once(fieldFlow); fresh {
			_, ok = f.text("flowId", 0, maxID, &r.FlowID)
		}
	case "featureKey":
		if fresh = f.once(fieldFeatureKey); fresh {
			_, ok = f.text("featureKey", 1, maxID, &r.FeatureKey)
		}
	case "customerReferenceId":
		if fresh = f.once(fieldCustomer); fresh {
			_, ok = f.text("customerReferenceId", 1, maxID, &r.Customer)
		}
	case "costAmount":
		if fresh = f.once(fieldCost); fresh {
			r.HasCost, ok = f.number("costAmount", &r.Cost)
		}
	case "usageUnits":
		if fresh = f.once(fieldUnits); fresh {
			in.units, ok = f.number("usageUnits", &r.Units)
		}
	case "meta":
		if fresh = f.once(fieldMeta); fresh {
			in.meta, ok = f.object("meta", in.meta)
			r.Meta = in.meta
		}
	default:
		return in.idField(name)
	}
	return ok, fresh
}

func (in *handEvent) idField(name []byte) (ok, fresh bool) {
	f, r := &in.form, &in.record
	switch string(name) {
	case "featureId":
		if fresh = f.once(fieldFeatureID); fresh {
			ok = f.uuid("featureId", &r.FeatureID)
		}
	case "customerId":
		if fresh = f.once(fieldCustomerID); fresh {
			ok = f.uuid("customerId", &r.CustomerID)
		}
	case "subscriptionId":
		if fresh = f.once(fieldSubscription); fresh {
			ok = f.uuid("subscriptionId", &r.SubscriptionID)
		}
	case "entitlementId":
		if fresh = f.once(fieldEntitlement); fresh {
			ok = f.uuid("entitlementId", &r.EntitlementID)
		}
	case "invoiceId":
		if fresh = f.once(fieldInvoice); fresh {
			ok = f.uuid("invoiceId", &r.InvoiceID)
		}
	default:
		return f.unknown(name), true
	}
	return ok, fresh
}

// complete checks what the fields say together and fills in what they leave out.
func (in *handEvent) complete(header []byte) {
	f, r := &in.form, &in.record
	if len(header) > 0 {
		if code, reason := textProblem(header, 1, maxKey); reason != "" {
			f.problem("X-Idempotency-Key", code, reason)
		}
		r.KeyText = header
	} else if len(r.KeyText) == 0 && !f.hasProblem("eventIdempotencyKey") {
		f.problem("eventIdempotencyKey", server.FieldRequired,
			"is required, here or in X-Idempotency-Key")
	}
	if len(r.EventName) == 0 && !f.hasProblem("eventName") {
		f.problem("eventName", server.FieldRequired, "is required")
	}
	if !in.timed && !f.hasProblem("occurredAt") {
		f.problem("occurredAt", server.FieldRequired, "is required")
	}
	both := len(r.Customer) > 0 && r.CustomerID != ([16]byte{})
	neither := len(r.Customer) == 0 && r.CustomerID == ([16]byte{}) &&
		!f.hasProblem("customerReferenceId") && !f.hasProblem("customerId")
	if both || neither {
		code := server.FieldRequired
		if both {
			code = server.FieldConflict
		}
		f.problems = append(f.problems, server.FieldError{
			Field: "customerReferenceId", Code: code,
			Message: "exactly one of customerReferenceId and customerId is required",
		})
	}
	if !in.units {
		r.Units = one
	} else if r.Units.Sign() < 0 {
		f.problem("usageUnits", server.FieldOutOfRange, "must not be negative")
	}
	if r.HasCost && r.Cost.Sign() < 0 {
		f.problem("costAmount", server.FieldOutOfRange, "must not be negative")
	}
	r.Key = billing.UsageKey(r.Env, r.KeyText)
	r.Attempt = attemptTag()
}

func handWriteCustomer(
	data *server.JSON, c *billing.CustomerView, subscriptions []billing.SubscriptionView,
	pools []billing.PoolView,
) {
	data.Open('{')
	data.UUID("id", c.ID)
	handCustomerFields(data, &c.CustomerCore)
	if c.HasAddress {
		data.Text("address", c.Address)
	}
	data.Time("archivedAt", c.ArchivedAt)
	data.Time("erasedAt", c.ErasedAt)
	data.Array("subscriptions")
	for i := range subscriptions {
		if subscriptions[i].IsActive {
			handWriteSubscription(data, &subscriptions[i])
		}
	}
	data.Close(']')
	data.Array("creditPools")
	for i := range pools {
		handWritePool(data, &pools[i])
	}
	data.Close(']')
	data.Close('}')
}

func handCustomerFields(data *server.JSON, c *billing.CustomerCore) {
	data.Text("externalClientCustomerId", c.ExternalID)
	data.Text("firstName", c.FirstName)
	data.Text("lastName", c.LastName)
	data.Text("email", c.Email)
	if c.HasPhoneNumber {
		data.Text("phoneNumber", c.PhoneNumber)
	}
	data.Time("createdAt", c.CreatedAt)
	data.Time("modifiedAt", c.ModifiedAt)
}

func handWriteSubscription(data *server.JSON, s *billing.SubscriptionView) {
	data.Open('{')
	data.UUID("id", s.ID)
	data.Bool("isActive", s.IsActive)
	data.Text("intervalMonths", strconv.FormatUint(uint64(s.Plan.IntervalMonths), 10))
	data.Object("customer")
	data.UUID("id", s.Customer.ID)
	handCustomerFields(data, &s.Customer)
	data.Close('}')
	data.Name("plan")
	handWritePlan(data, &s.Plan)
	data.Uint("gracePeriodDays", uint64(s.GraceDays))
	data.Time("createdAt", s.CreatedAt)
	data.Time("currentPeriodStart", s.PeriodStart)
	data.Time("currentPeriodEnd", s.PeriodEnd)
	handWriteCancellation(data, s)
	data.Uint("billingAnchorDay", uint64(s.AnchorDay))
	data.Object("metadata")
	data.Time("suspendedAt", s.SuspendedAt)
	data.Close('}')
	data.Close('}')
}

func handWritePlan(data *server.JSON, p *billing.PlanView) {
	data.Open('{')
	data.UUID("id", p.ID)
	data.Text("key", p.Key)
	data.Uint("version", uint64(p.Version))
	data.Text("name", p.Name)
	data.Text("description", p.Description)
	data.Decimal("priceAmount", p.PriceAmount)
	data.Text("currency", p.Currency)
	data.Uint("intervalMonths", uint64(p.IntervalMonths))
	data.Text("billingTiming", p.BillingTiming)
	data.Text("status", p.Status)
	data.Raw("metadata", p.Metadata)
	data.Array("features")
	for i := range p.Features {
		f := &p.Features[i]
		data.Open('{')
		data.UUID("id", f.ID)
		data.Text("key", f.Key)
		data.Text("name", f.Name)
		data.Text("description", f.Description)
		data.Text("pricingType", f.PricingType)
		data.Object("pricing")
		handWritePricing(data, &f.Pricing)
		data.Close('}')
		data.Close('}')
	}
	data.Close(']')
	data.Array("creditAllocations")
	for i := range p.CreditAllocations {
		handWriteAllocation(data, &p.CreditAllocations[i])
	}
	data.Close(']')
	data.Close('}')
}

var changeTypeNames = map[billing.ChangeType]string{
	billing.ChangeUpgrade: "UPGRADE", billing.ChangeDowngrade: "DOWNGRADE",
}

var changeStatusNames = map[billing.ChangeStatus]string{
	billing.ChangePending: "PENDING", billing.ChangeCompleted: "COMPLETED",
	billing.ChangeCancelled: "CANCELLED", billing.ChangeFailed: "FAILED",
}

var cancelModeNames = map[billing.CancelMode]string{
	billing.CancelImmediate: "IMMEDIATE", billing.CancelAtPeriodEnd: "END_OF_PERIOD",
}

func handWritePlanChange(data *server.JSON, c *billing.PlanChangeView) {
	data.UUID("id", c.ID)
	data.UUID("subscriptionId", c.SubscriptionID)
	data.Text("type", changeTypeNames[c.Type])
	data.Name("fromPlan")
	handWritePlan(data, &c.From)
	data.Name("toPlan")
	handWritePlan(data, &c.To)
	data.Text("status", changeStatusNames[c.Status])
	data.Time("effectiveAt", c.EffectiveAt)
	data.Time("createdAt", c.CreatedAt)
}

// handWriteCancellation writes a cancellation and a scheduled change, as far as there
// are any.
func handWriteCancellation(data *server.JSON, s *billing.SubscriptionView) {
	data.TextIf("cancelMode", cancelModeNames[s.CancelMode])
	data.Time("cancelEffectiveAt", s.CancelEffectiveAt)
	data.Time("cancelledAt", s.CancelledAt)
	data.Time("endedAt", s.EndedAt)
	if s.ScheduledChange != nil {
		data.Object("scheduledChange")
		handWritePlanChange(data, s.ScheduledChange)
		data.Close('}')
	}
}

func handWritePool(data *server.JSON, p *billing.PoolView) {
	data.Open('{')
	data.UUID("id", p.ID)
	data.Text("name", p.Name)
	data.Text("denomination", p.Denomination)
	data.Text("currency", p.Currency)
	data.Decimal("balance", p.Balance)
	data.Decimal("held", p.Held)
	data.Decimal("available", p.Available)
	data.Decimal("totalGranted", p.TotalGranted)
	data.Decimal("totalConsumed", p.TotalConsumed)
	data.Decimal("totalExpired", p.TotalExpired)
	data.Decimal("totalReversed", p.TotalReversed)
	data.Bool("hardLimit", p.HardLimit)
	data.Text("status", p.Status)
	data.Text("rolloverPolicy", p.RolloverPolicy)
	if p.HasCap {
		data.Decimal("rolloverCap", p.RolloverCap)
	}
	data.Int("priority", p.Priority)
	data.UUID("customerId", p.CustomerID)
	data.Raw("metadata", p.Metadata)
	data.Time("createdAt", p.CreatedAt)
	data.Time("modifiedAt", p.ModifiedAt)
	data.Close('}')
}

func handWritePricing(data *server.JSON, p *billing.PricingDocument) {
	data.TextIf("model", p.Model)
	data.Decimal("pricePerUnit", p.PricePerUnit)
	data.Text("unitLabel", p.UnitLabel)
	if p.HasMax {
		data.Decimal("maxUsage", p.MaxUsage)
	}
	data.Decimal("includedUnits", p.IncludedUnits)
	data.TextIf("resetMode", p.ResetMode)
	data.TextIf("limitMode", p.LimitMode)
	if len(p.Tiers) > 0 {
		data.Array("tiers")
		for i := range p.Tiers {
			billingview.WriteTier(data, &p.Tiers[i])
		}
		data.Close(']')
	}
	if p.PackageSize.Sign() > 0 {
		data.Decimal("packageSize", p.PackageSize)
		data.Decimal("pricePerPackage", p.PricePerPackage)
	}
	if p.Credits.Pool != "" {
		data.Object("credits")
		data.Text("pool", p.Credits.Pool)
		data.Decimal("weight", p.Credits.Weight)
		data.Close('}')
	}
}

func handWriteAllocation(data *server.JSON, a *billing.CreditAllocationDocument) {
	data.Open('{')
	data.Text("pool", a.Pool)
	data.Text("denomination", a.Denomination)
	data.Text("currency", a.Currency)
	data.Decimal("amount", a.Amount)
	data.Int("priority", a.Priority)
	if a.ExpiresAfterDays > 0 {
		data.Uint("expiresAfterDays", uint64(a.ExpiresAfterDays))
	}
	data.Text("rolloverPolicy", a.RolloverPolicy)
	if a.HasCap {
		data.Decimal("rolloverCap", a.RolloverCap)
	}
	data.Bool("hardLimit", a.HardLimit)
	data.Close('}')
}
