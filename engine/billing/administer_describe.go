package billing

import (
	"cmp"
	"strconv"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/uuid"
)

// This file describes, for the record of changes, the effects of commands that both programs and
// operators give. It never includes personal data: of a name or an address it says only that it was
// set or changed.

func (c *CreateCustomer) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "customer.created", Subject: uuid.Text(c.ID)}
	if row := t.CustomerIn(c.Env, &c.ID); row != 0 {
		name := string(t.ExternalID(t.Customers.Read(row)))
		d.Values = append(d.Values, accounts.Given("customer", name))
	}
	return d
}

func (c *UpdateCustomer) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "customer.changed"}
	row := t.CustomerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return d
	}
	d.Subject = uuid.Text(t.Customers.Read(row).ID)
	p := t.Profile(row)
	for _, f := range [...]struct{ name, value string }{
		{"firstName", p.FirstName},
		{"lastName", p.LastName},
		{"email", p.Email},
		{"phoneNumber", p.PhoneNumber},
		{"address", p.Address},
	} {
		d.Values = append(d.Values, accounts.Given(f.name, private+f.value))
	}
	return d
}

func (c *CreateSubscription) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "subscription.created", Subject: uuid.Text(c.ID)}
	if row := t.SubscriptionIn(c.Env, &c.ID); row != 0 {
		b, catalog := t.Subscriptions.Whole(row), t.Environment(c.Env).Catalog.Load()
		name := string(t.ExternalID(t.Customers.Read(b.Customer)))
		d.Values = append(d.Values, accounts.Given("customer", name),
			accounts.Given("plan", catalog.PlanKey(b.Version)),
			accounts.Given("gracePeriodDays", strconv.Itoa(int(b.GraceDays))))
	}
	if row := t.InvoiceIn(c.Env, &c.InvoiceID); row != 0 {
		d.Values = append(d.Values, accounts.Given("invoice", uuid.Text(c.InvoiceID)))
	}
	return d
}

// describeSubscription returns what commands change of an existing subscription.
func (t *turn) describeSubscription(env uint32, id *[16]byte, action string) accounts.Change {
	d := accounts.Change{Env: env, Action: action, Subject: uuid.Text(*id)}
	l, _, _ := t.Current(env, id)
	if l == nil {
		return d
	}
	state, scheduled := "active", ""
	if l.Sub.EndedAt != 0 {
		state = "ended"
	}
	if p := l.PendingChange(); p != nil {
		scheduled = l.Catalog.VersionName(p.To)
	}
	d.Values = append(d.Values, accounts.Given("state", state),
		accounts.Given("cancelMode", l.Sub.CancelMode.Named().String()),
		accounts.Given("plan", l.Catalog.VersionName(l.Sub.Version)),
		accounts.Given("scheduledPlan", scheduled))
	return d
}

func (c *CancelSubscription) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancelled")
}

func (c *RevertCancellation) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancellation-reverted")
}

func (c *ChangePlan) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-changed")
}

func (c *CancelPlanChange) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-change-cancelled")
}

func (c *MarkInvoicePaid) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "invoice.paid", Subject: uuid.Text(c.ID)}
	status := ""
	if l, at, _ := t.unpaid(c.Env, &c.ID); l != nil {
		status = l.Unpaid[at].Status.String()
	} else if row := t.InvoiceIn(c.Env, &c.ID); row != 0 {
		status = t.Invoices.Read(row).Status.String()
	}
	d.Values = append(d.Values, accounts.Given("status", status))
	paid := status == book.InvoicePaid.String()
	if paid && rows.Plain(c.Note, 1, maxPaidNote) {
		d.Values = append(d.Values, accounts.Given("note", c.Note))
	}
	return d
}

func (c *OpenCheckout) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "checkout.opened", Subject: uuid.Text(c.InvoiceID)}
	if t.checkouts.find(c.ID) != 0 {
		d.Values = append(d.Values, accounts.Given("checkout", uuid.Text(c.ID)))
	}
	return d
}

func (c *RecordUsage) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "usage.recorded"}
	if row := c.customerRow(t.state); row != 0 {
		d.Subject = uuid.Text(t.Customers.Read(row).ID)
	}
	if _, recorded := t.keys.Find(c.Key, t.keys.Hash(c.Key)); !recorded {
		return d
	}
	d.Values = append(d.Values,
		accounts.Given("feature", cmp.Or(string(c.FeatureKey), string(c.EventName))),
		accounts.Given("units", c.Units.String()), accounts.Given("key", string(c.KeyText)))
	return d
}

// describeUsage returns what corrections change of an event.
func (t *turn) describeUsage(
	env uint32, key *[16]byte, of *UsageRef, action string,
) accounts.Change {
	d := accounts.Change{Env: env, Action: action}
	k, _ := t.openCorrection(env, key, of)
	if k == nil || k.key == ([16]byte{}) {
		return d
	}
	d.Subject = uuid.Text(t.Customers.Read(k.owner).ID)
	d.Values = append(d.Values, accounts.Given("units", k.units.String()),
		accounts.Given("voided", strconv.FormatBool(k.voidedAt != 0)))
	return d
}

func (c *VoidUsage) describe(t *turn) accounts.Change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.voided")
}

func (c *AmendUsage) describe(t *turn) accounts.Change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.amended")
}
