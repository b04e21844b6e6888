package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// drawn draws the values of a view.
type drawn struct{ *rapid.T }

func (d drawn) text() string {
	return rapid.SampledFrom([]string{"", "ada", "é\n\"", strings.Repeat("x", 40)}).Draw(d.T, "text")
}

func (d drawn) time() int64 {
	return rapid.SampledFrom([]int64{0, 1_769_871_600_000, -1, 1}).Draw(d.T, "time")
}

func (d drawn) id() (id [16]byte) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(d.T, "id"))
	return id
}

func (d drawn) bool() bool { return rapid.Bool().Draw(d.T, "bool") }

func (d drawn) upTo(limit uint8) uint8 { return rapid.Uint8Range(0, limit).Draw(d.T, "number") }

func (d drawn) plan() billing.PlanView {
	numbers := []string{"0", "12.5", "-0.000000000001", "1000000"}
	p := billing.PlanView{
		ID: d.id(), Key: d.text(), Version: uint32(d.upTo(9)), Name: d.text(), Description: d.text(),
		PriceAmount: decimal.MustParse(rapid.SampledFrom(numbers).Draw(d.T, "price")), Currency: "USD",
		IntervalMonths: uint32(d.upTo(12)), BillingTiming: d.text(), Status: d.text(),
	}
	if d.bool() {
		p.Metadata = []byte(`{"tier":1}`)
	}
	for range d.upTo(2) {
		p.Features = append(p.Features, billing.PlanFeatureView{
			FeatureView: billing.FeatureView{ID: d.id(), Key: d.text()}, PricingType: "included",
		})
		p.CreditAllocations = append(p.CreditAllocations, billing.CreditAllocationDocument{Pool: "p"})
	}
	return p
}

func (d drawn) subscription() billing.SubscriptionView {
	s := billing.SubscriptionView{
		ID: d.id(), IsActive: d.bool(), Plan: d.plan(), GraceDays: uint32(d.upTo(200)),
		Customer: billing.CustomerCore{
			ID: d.id(), ExternalID: d.text(), FirstName: d.text(), LastName: d.text(), Email: d.text(),
			PhoneNumber: d.text(), HasPhoneNumber: d.bool(), HasAddress: d.bool(),
			CreatedAt: d.time(), ModifiedAt: d.time(),
		},
		CreatedAt: d.time(), PeriodStart: d.time(), PeriodEnd: d.time(), SuspendedAt: d.time(),
		CancelMode: billing.CancelMode(d.upTo(2)), CancelledAt: d.time(), EndedAt: d.time(),
		CancelEffectiveAt: d.time(), AnchorDay: uint32(d.upTo(31)),
	}
	s.IntervalMonths = s.Plan.IntervalMonths
	if d.bool() {
		s.ScheduledChange = &billing.PlanChangeView{
			ID: d.id(), SubscriptionID: d.id(), Type: billing.ChangeType(1 + d.upTo(1)),
			From: d.plan(), To: d.plan(), Status: billing.ChangeStatus(1 + d.upTo(3)),
			EffectiveAt: d.time(), CreatedAt: d.time(),
		}
	}
	return s
}

// TestWritersAgreeWithThoseByHand: generated writers write the bytes of the code by hand that
// they replaced.
func TestWritersAgreeWithThoseByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawn{t}
		c := customerAnswer{
			CustomerView: billing.CustomerView{
				Address: d.text(), ArchivedAt: d.time(), ErasedAt: d.time(),
			},
			Pools: []billing.PoolView{{Name: d.text()}},
		}
		for range d.upTo(2) {
			s := d.subscription()
			s.IsActive, c.CustomerCore = true, s.Customer
			c.Subscriptions = append(c.Subscriptions, s)
		}
		var want, got server.JSON
		handWriteCustomer(&want, &c.CustomerView, c.Subscriptions, c.Pools)
		writeCustomer(&got, &c)
		require.Equal(t, string(want), string(got))
	})
}

func BenchmarkWriteSubscription(b *testing.B) {
	s := rapid.Custom(func(t *rapid.T) billing.SubscriptionView {
		return drawn{t}.subscription()
	}).Example(3)
	for name, write := range map[string]func(*server.JSON, *billing.SubscriptionView){
		"hand": handWriteSubscription, "generated": writeSubscription,
	} {
		b.Run(name, func(b *testing.B) {
			var data server.JSON
			b.ReportAllocs()
			for b.Loop() {
				data = data[:0]
				write(&data, &s)
			}
		})
	}
}
