package client

import (
	"strconv"

	"tollgate/engine/billing"
	"tollgate/server"
)

// The functions below write the machine's views as the API document shapes them. What is null is
// left out; empty texts and lists that the document requires are sent.

func writeCustomer(
	data *server.JSON, c *billing.CustomerView, subscriptions []billing.SubscriptionView,
	pools []billing.PoolView,
) {
	data.Open('{')
	data.UUID("id", c.ID)
	writeCustomerFields(data, c)
	if c.HasAddress {
		data.Text("address", c.Address)
	}
	data.Time("archivedAt", c.ArchivedAt)
	data.Time("erasedAt", c.ErasedAt)
	data.Array("subscriptions")
	for i := range subscriptions {
		if subscriptions[i].IsActive {
			writeSubscription(data, &subscriptions[i])
		}
	}
	data.Close(']')
	writePools(data, pools)
	data.Close('}')
}

func writeCustomerFields(data *server.JSON, c *billing.CustomerView) {
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

func writeSubscription(data *server.JSON, s *billing.SubscriptionView) {
	data.Open('{')
	data.UUID("id", s.ID)
	data.Bool("isActive", s.IsActive)
	data.Text("intervalMonths", strconv.FormatUint(uint64(s.Plan.IntervalMonths), 10))
	data.Object("customer")
	data.UUID("id", s.Customer.ID)
	writeCustomerFields(data, &s.Customer)
	data.Close('}')
	data.Name("plan")
	writePlan(data, &s.Plan)
	data.Uint("gracePeriodDays", uint64(s.GraceDays))
	data.Time("createdAt", s.CreatedAt)
	data.Time("currentPeriodStart", s.PeriodStart)
	data.Time("currentPeriodEnd", s.PeriodEnd)
	writeCancellation(data, s)
	data.Uint("billingAnchorDay", uint64(s.AnchorDay))
	data.Object("metadata")
	data.Time("suspendedAt", s.SuspendedAt)
	data.Close('}')
	data.Close('}')
}

func writePlan(data *server.JSON, p *billing.PlanView) {
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
		data.UUID("id", f.Feature.ID)
		data.Text("key", f.Feature.Key)
		data.Text("name", f.Feature.Name)
		data.Text("description", f.Feature.Description)
		data.Text("pricingType", f.PricingType)
		data.Object("pricing")
		server.WritePricing(data, &f.Pricing)
		data.Close('}')
		data.Close('}')
	}
	data.Close(']')
	data.Array("creditAllocations")
	server.WriteAllocations(data, p.CreditAllocations)
	data.Close(']')
	data.Close('}')
}
