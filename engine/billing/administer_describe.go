package billing

import "strconv"

// What follows describes, for the record of changes, what the commands change that programs and
// operators both give. Personal data is never in it: of a name or an address it says only that it
// was set or changed.

func (c *CreateCustomer) describe(t *turn) change {
	d := change{Env: c.Env, Action: "customer.created", Subject: uuidText(c.ID)}
	if row := t.customerIn(c.Env, &c.ID); row != 0 {
		d.Values = []FieldChange{{Name: "customer", After: string(t.externalID(t.customers.Read(row)))}}
	}
	return d
}

func (c *UpdateCustomer) describe(t *turn) change {
	d := change{Env: c.Env, Action: "customer.changed"}
	row := t.customerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return d
	}
	d.Subject = uuidText(t.customers.Read(row).id)
	p := t.profile(row)
	for _, f := range [...]struct{ name, value string }{
		{"firstName", p.FirstName},
		{"lastName", p.LastName},
		{"email", p.Email},
		{"phoneNumber", p.PhoneNumber},
		{"address", p.Address},
	} {
		d.Values = append(d.Values, FieldChange{Name: f.name, After: private + f.value})
	}
	return d
}

func (c *CreateSubscription) describe(t *turn) change {
	d := change{Env: c.Env, Action: "subscription.created", Subject: uuidText(c.ID)}
	if row := t.subscriptionIn(c.Env, &c.ID); row != 0 {
		b, catalog := t.subscriptions.Whole(row), t.environment(c.Env).catalog.Load()
		d.Values = []FieldChange{
			{Name: "customer", After: string(t.externalID(t.customers.Read(b.customer)))},
			{Name: "plan", After: catalog.planKey(b.version)},
			{Name: "gracePeriodDays", After: strconv.Itoa(int(b.graceDays))},
		}
	}
	if row := t.invoiceIn(c.Env, &c.InvoiceID); row != 0 {
		d.Values = append(d.Values, FieldChange{Name: "invoice", After: uuidText(c.InvoiceID)})
	}
	return d
}

// describeSubscription is what commands change of a subscription that there is.
func (t *turn) describeSubscription(env uint32, id *[16]byte, action string) change {
	d := change{Env: env, Action: action, Subject: uuidText(*id)}
	l, _, _ := t.current(env, id)
	if l == nil {
		return d
	}
	state, mode, scheduled := "active", "", ""
	if l.b.endedAt != 0 {
		state = "ended"
	}
	switch l.b.cancelMode {
	case CancelImmediate:
		mode = "IMMEDIATE"
	case CancelAtPeriodEnd:
		mode = "END_OF_PERIOD"
	}
	if p := l.pendingChange(); p != nil {
		scheduled = l.catalog.versionName(p.to)
	}
	d.Values = []FieldChange{
		{Name: "state", After: state},
		{Name: "cancelMode", After: mode},
		{Name: "plan", After: l.catalog.versionName(l.b.version)},
		{Name: "scheduledPlan", After: scheduled},
	}
	return d
}

// versionName names a plan's version for people.
func (c *catalog) versionName(version uint32) string {
	return c.planKey(version) + " version " + strconv.Itoa(int(c.version(version).version))
}

func (c *CancelSubscription) describe(t *turn) change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancelled")
}

func (c *RevertCancellation) describe(t *turn) change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancellation-reverted")
}

func (c *ChangePlan) describe(t *turn) change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-changed")
}

func (c *CancelPlanChange) describe(t *turn) change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-change-cancelled")
}

func (c *MarkInvoicePaid) describe(t *turn) change {
	d := change{Env: c.Env, Action: "invoice.paid", Subject: uuidText(c.ID)}
	status := ""
	if l, at, _ := t.unpaid(c.Env, &c.ID); l != nil {
		status = l.unpaid[at].status.String()
	} else if row := t.invoiceIn(c.Env, &c.ID); row != 0 {
		status = t.invoices.Read(row).status.String()
	}
	d.Values = []FieldChange{{Name: "status", After: status}}
	return d
}

func (c *OpenCheckout) describe(t *turn) change {
	d := change{Env: c.Env, Action: "checkout.opened", Subject: uuidText(c.InvoiceID)}
	if t.checkouts.find(c.ID) != 0 {
		d.Values = []FieldChange{{Name: "checkout", After: uuidText(c.ID)}}
	}
	return d
}

func (c *RecordUsage) describe(t *turn) change {
	d := change{Env: c.Env, Action: "usage.recorded"}
	if row := c.customerRow(t.state); row != 0 {
		d.Subject = uuidText(t.customers.Read(row).id)
	}
	if _, recorded := t.keys.Find(c.Key); !recorded {
		return d
	}
	feature := string(c.FeatureKey)
	if feature == "" {
		feature = string(c.EventName)
	}
	d.Values = []FieldChange{
		{Name: "feature", After: feature},
		{Name: "units", After: c.Units.String()},
		{Name: "key", After: string(c.KeyText)},
	}
	return d
}

// describeUsage is what corrections change of an event.
func (t *turn) describeUsage(env uint32, key *[16]byte, of *UsageRef, action string) change {
	d := change{Env: env, Action: action}
	k, _ := t.openCorrection(env, key, of)
	if k == nil || k.key == ([16]byte{}) {
		return d
	}
	d.Subject = uuidText(t.customers.Read(k.owner).id)
	d.Values = []FieldChange{
		{Name: "units", After: k.units.String()},
		{Name: "voided", After: strconv.FormatBool(k.voidedAt != 0)},
	}
	return d
}

func (c *VoidUsage) describe(t *turn) change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.voided")
}

func (c *AmendUsage) describe(t *turn) change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.amended")
}
