package admin

import (
	"net/url"
	"strings"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// platformRoutes are the rows about what surrounds billing: customers' data, origins, the record of
// admin changes.
func (a *API) platformRoutes() []server.Route {
	origins := server.AnswerSchema[originsAnswer]()
	return []server.Route{
		row("DELETE", environment+"/customers/{customer}", "removeCustomer",
			"Archive a customer, or erase its personal data", a.accounts.removeCustomer,
			server.Asks(server.InQuery("erase", server.EnumSchema("true", "false"), "true erases")),
			nothing("Done, or it was before")),
		row("PUT", environment+"/origins", "setOrigins",
			"Set the web origins that may use customer keys", a.accounts.putOrigins,
			server.Takes(origins), nothing("Set")),
		row("GET", environment+"/origins", "listOrigins", "The web origins that may use customer keys",
			a.within(a.accounts.listOrigins), answers(origins)),
		row("GET", environment+"/margin", "showMargin",
			"Revenue of invoices, cost of usage, and their difference", a.invoices.margin, server.Asks(
				must(server.InQuery("from", server.TimeSchema, "earliest instant")),
				must(server.InQuery("to", server.TimeSchema, "instants before this")),
				must(server.InQuery("by", server.EnumSchema("customer", "feature", "plan"), ""))),
			answers(server.Object(server.Must("rows", server.ArrayOf(server.RefTo("MarginRow")))))),
		row("GET", environment+"/usage", "showUsage",
			"Usage by feature; of an environment also checks by reason, and revenue",
			a.invoices.showUsage, server.Asks(billingview.UsageParams()...),
			answers(server.RefTo("UsageTotals"))),
		row("GET", environment+"/usage/customers", "usageByCustomer",
			"The customers who used most: of a feature by units, of all features by events, or by price",
			a.invoices.usageByCustomer, server.Asks(append(billingview.UsageParams()[1:],
				server.InQuery("sort", server.EnumSchema(sortPrice), "what the usage adds to bills"),
				server.InQuery("currency", text(3, 3), "of the price; the one with most subscriptions "+
					"when absent"),
				server.InQuery("limit", server.IntSchema(1, maxUsageCustomers), "20 when absent"))...),
			answers(server.Object(server.Must("from", server.TimeSchema),
				server.Must("to", server.TimeSchema),
				server.Must("customers", server.ArrayOf(server.RefTo("CustomerUsage"))),
				server.Must("others", server.IntegerSchema)))),
		row("GET", environment+"/checks/denied", "deniedByCustomer",
			"The customers who were denied checks most, and why", a.invoices.deniedByCustomer,
			server.Asks(append(billingview.UsageParams()[2:],
				server.InQuery("reason", server.EnumSchema(denialReasons()...), "all when absent"),
				server.InQuery("limit", server.IntSchema(1, maxUsageCustomers), "20 when absent"))...),
			answers(server.Object(server.Must("from", server.TimeSchema),
				server.Must("to", server.TimeSchema),
				server.Must("customers", server.ArrayOf(server.RefTo("CustomerDenials"))),
				server.Must("others", server.IntegerSchema)))),
		row("GET", Prefix+"/audit", "listChanges", "Every admin change, newest first",
			a.accounts.listChanges, server.Asks(changeParams()...),
			pages("changes", "Change", maxChanges, "100", maxChangeCursor)),
	}
}

// removeCustomer is DELETE …/customers/{customer}: with erase=true it erases the customer's
// personal data, without it archives the customer.
func (a *accounts) removeCustomer(x *server.Exchange) *server.Fault {
	erase, fault := switchParam(x, "erase")
	if fault != nil {
		return fault
	}
	id, fault := pathCustomer(x)
	if fault != nil {
		return fault
	}
	if erase {
		c := billing.EraseCustomer{ExternalID: id, Actor: x.By()}
		return a.carryOut(x, billing.KindEraseCustomer, &c, &c.Env)
	}
	c := billing.ArchiveCustomer{ExternalID: id, Actor: x.By()}
	return a.carryOut(x, billing.KindArchiveCustomer, &c, &c.Env)
}

func (a *accounts) putOrigins(x *server.Exchange) *server.Fault {
	origins := []string{}
	var w walk
	fault := body(x, &w, map[string]reader{"origins": w.array(func(t *tree, place string) {
		var origin string
		w.text(&origin)(t, place)
		w.when(len(w.problems) == 0 && !validOrigin(origin), place, server.FieldFormat,
			"must be an origin such as https://shop.example, in lower case")
		origins = append(origins, origin)
	})}, "origins")
	if fault == nil && len(origins) > billing.MaxOrigins {
		w.problem("origins", server.FieldTooLong, "%s", form.TooMany(billing.MaxOrigins).Text)
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	c := billing.SetOrigins{Origins: origins, Actor: x.By()}
	return a.carryOut(x, billing.KindSetOrigins, &c, &c.Env)
}

// validOrigin reports whether text is what browsers send as Origin.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		len(text) <= 253+len("https://:65535") && text == u.Scheme+"://"+u.Host &&
		text == strings.ToLower(text) && !strings.ContainsAny(u.Host, "*;, '\"")
}

// originsAnswer is the web origins that may use customer keys.
//
//schema:answer admin Origins
type originsAnswer struct {
	Origins []string `json:"origins" rule:"min=1"`
}

func (a *accounts) listOrigins(x *server.Exchange, env uint32) *server.Fault {
	return server.One(x, 200, &originsAnswer{a.machine.Origins(env)}, writeOrigins)
}

// termsRoutes are the rows about when invoices are issued and fall due.
func (a *accounts) termsRoutes() []server.Route {
	return []server.Route{
		row("PUT", environment+"/payment-terms", "setPaymentTerms",
			"Say how many minutes after their period's end invoices are issued, and how many days after "+
				"that they fall due, from now on; what is left out stays", a.putTerms,
			server.Takes(server.Object(
				server.May("paymentTermDays", server.IntSchema(0, billing.MaxPaymentTermDays)),
				server.May("settleMinutes", server.IntSchema(0, billing.MaxSettleMinutes)))),
			nothing("Set")),
		row("GET", environment+"/payment-terms", "showPaymentTerms", "How many minutes after their "+
			"period's end invoices are issued, and how many days after that they fall due",
			a.within(a.getTerms), answers(server.AnswerSchema[termsAnswer]())),
		row("PUT", environment+"/seller", "setSeller", "State who issues the invoices: name, address, "+
			"e-mail and tax number, which invoices show; what is left out is empty", a.putSeller,
			server.Takes(server.AnswerSchema[billing.Seller]()), nothing("Set")),
		row("GET", environment+"/seller", "showSeller", "Who issues the invoices",
			a.within(a.getSeller), answers(server.AnswerSchema[billing.Seller]())),
	}
}

func (a *accounts) putSeller(x *server.Exchange) *server.Fault {
	c := billing.SetSeller{Actor: x.By()}
	var w walk
	if fault := tagged(x, &w, &c.Seller, nil); fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindSetSeller, &c, &c.Env)
}

func (a *accounts) getSeller(x *server.Exchange, env uint32) *server.Fault {
	return server.One(x, 200, new(a.machine.Seller(env)), writeSeller)
}

func (a *accounts) putTerms(x *server.Exchange) *server.Fault {
	const daysName, settleName = "paymentTermDays", "settleMinutes"
	var w walk
	c := billing.SetPaymentTerms{KeepDays: true, Actor: x.By()}
	fault := body(x, &w, map[string]reader{
		daysName: func(t *tree, place string) {
			w.whole(&c.Days)(t, place)
			c.KeepDays = false
		},
		settleName: func(t *tree, place string) {
			w.whole(&c.SettleMinutes)(t, place)
			c.SetSettle = true
		},
	})
	if fault == nil {
		w.when(c.KeepDays && !c.SetSettle, daysName, server.FieldRequired, "or %s is required",
			settleName)
		w.wrong(c.Days > billing.MaxPaymentTermDays, daysName,
			form.Outside(0, billing.MaxPaymentTermDays))
		w.wrong(c.SettleMinutes > billing.MaxSettleMinutes, settleName,
			form.Outside(0, billing.MaxSettleMinutes))
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindSetPaymentTerms, &c, &c.Env)
}

// termsAnswer is when invoices are issued and fall due.
//
//schema:answer admin PaymentTerms
type termsAnswer struct {
	Days          uint32 `json:"paymentTermDays" rule:"max=365"`
	SettleMinutes uint32 `json:"settleMinutes" rule:"max=10080"`
}

func (a *accounts) getTerms(x *server.Exchange, env uint32) *server.Fault {
	days, minutes := a.machine.PaymentTerms(env)
	return server.One(x, 200, &termsAnswer{days, minutes}, writePaymentTerms)
}
