package catalogs

import (
	"cmp"
	"math/big"
	"slices"

	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Recurring adds up what subscriptions come to in a month, by currency: the sum of their prices,
// each divided by the months of its interval. It has no usage.
type Recurring struct {
	prices map[pricedInterval]decimal.Decimal
	counts map[string]int64
}

type pricedInterval struct {
	currency string
	months   uint32
}

// RecurringAmount is such a sum in one currency.
type RecurringAmount struct {
	Currency      string
	Amount        decimal.Decimal // rounded once to the currency's minor units, half away from zero
	Subscriptions int64
}

// Add adds so many subscriptions to a version.
func (r *Recurring) Add(v *PlanVersion, count int64) {
	if count <= 0 {
		return
	}
	if r.prices == nil {
		r.prices, r.counts = map[pricedInterval]decimal.Decimal{}, map[string]int64{}
	}
	price, fits := v.Price.MulInt(count)
	if !fits {
		price = decimal.Largest()
	}
	at := pricedInterval{v.Currency, v.Interval}
	r.prices[at] = sums.Of(r.prices[at], price)
	r.counts[v.Currency] += count
}

// Amounts returns the sums in the order of currencies.
func (r *Recurring) Amounts() (list []RecurringAmount) {
	monthly := map[string]*big.Rat{}
	for at, price := range r.prices { // any order: fractions add up exactly
		sum := monthly[at.currency]
		if sum == nil {
			sum = new(big.Rat)
			monthly[at.currency] = sum
		}
		part, _ := new(big.Rat).SetString(price.String())
		sum.Add(sum, part.Quo(part, new(big.Rat).SetInt64(int64(max(at.months, 1)))))
	}
	for currency, sum := range monthly { // any order: they are sorted
		places, _ := decimal.MinorUnits(currency)
		amount, err := decimal.Parse(sum.FloatString(places))
		if err != nil { // beyond the range of numbers
			amount = decimal.Largest()
		}
		list = append(list, RecurringAmount{currency, amount, r.counts[currency]})
	}
	slices.SortFunc(list, func(a, b RecurringAmount) int {
		return cmp.Compare(a.Currency, b.Currency)
	})
	return list
}

// Recurring adds up the subscriptions to all versions that have not ended.
func (c *Catalog) Recurring() (r Recurring) {
	for _, v := range c.Versions {
		r.Add(v, v.Subscribers.Load())
	}
	return r
}
