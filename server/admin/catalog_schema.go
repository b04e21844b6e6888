package admin

import "tollgate/server"

// numbers say how a document's numbers are written: as numbers only, in answers, or also in
// strings, where an operator writes them.
type numbers struct {
	exact *server.Schema
	// answered reports whether what has a default is always there.
	answered bool
}

var (
	answeredNumbers = numbers{server.NumberSchema, true}
	writtenNumbers  = numbers{&server.Schema{OneOf: []*server.Schema{
		server.NumberSchema, {Type: "string", About: "an exact number"},
	}}, false}
)

// property is one that has a default: it is always in answers, and may be left out of requests.
func (n numbers) property(name string, s *server.Schema) server.Property {
	return server.Property{Name: name, Required: n.answered, Schema: s}
}

func catalogSchema(n numbers) *server.Schema {
	return server.Object(
		n.property("features", server.ArrayOf(server.Object(
			server.Must("key", text(1, maxID)),
			server.Must("name", text(1, maxID)),
			n.property("description", text(0, 0)),
			n.property("labels", server.ArrayOf(text(1, maxID))),
			server.May("costPerUnit", n.exact),
		))),
		n.property("plans", server.ArrayOf(planSchema(n))),
	)
}

func planSchema(n numbers) *server.Schema {
	return server.Object(
		server.Must("key", text(1, maxID)),
		server.Must("name", text(1, maxID)),
		n.property("description", text(0, 0)),
		server.Must("priceAmount", n.exact),
		server.Must("currency", text(3, 3)),
		server.Must("intervalMonths", server.IntSchema(1, 120)),
		n.property("billingTiming", server.EnumSchema("IN_ADVANCE", "IN_ARREARS")),
		n.property("status", server.EnumSchema("ACTIVE", "ARCHIVED", "DRAFT")),
		server.May("metadata", server.FreeObject()),
		n.property("features", server.ArrayOf(server.Object(
			server.Must("key", text(1, maxID)),
			server.Must("pricingType", server.EnumSchema("included", "usage_based", "graduated")),
			n.property("pricing", pricingSchema(n)),
		))),
		n.property("creditAllocations", server.ArrayOf(server.Object(
			server.Must("pool", text(1, maxID)),
			n.property("denomination", text(1, maxDenomination)),
			n.property("currency", text(3, 3)),
			server.Must("amount", n.exact),
			n.property("priority", server.IntSchema(-maxPriority, maxPriority)),
			server.May("expiresAfterDays", server.IntegerSchema),
			n.property("rolloverPolicy", server.EnumSchema("NONE", "FULL", "CAPPED")),
			server.May("rolloverCap", n.exact),
			n.property("hardLimit", server.BoolSchema),
		))),
	)
}

func pricingSchema(n numbers) *server.Schema {
	return server.Object(
		server.May("model", server.EnumSchema("per_unit", "volume", "package")),
		n.property("pricePerUnit", n.exact),
		n.property("unitLabel", text(0, 0)),
		server.May("maxUsage", n.exact),
		n.property("includedUnits", n.exact),
		server.May("resetMode", server.EnumSchema("reset", "accumulate")),
		server.May("limitMode", server.EnumSchema("soft", "hard")),
		server.May("tiers", server.ArrayOf(server.Object(
			server.Must("upTo", &server.Schema{OneOf: []*server.Schema{
				server.NumberSchema, text(1, 0),
			}}),
			n.property("pricePerUnit", n.exact),
			n.property("flatFee", n.exact),
		))),
		server.May("packageSize", n.exact),
		server.May("pricePerPackage", n.exact),
		server.May("credits", server.Object(
			server.Must("pool", text(1, maxID)), n.property("weight", n.exact),
		)),
	)
}
