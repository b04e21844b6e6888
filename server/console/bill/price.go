package bill

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// FaultRepriced answers a form whose page said another price than what would be billed.
var FaultRepriced = server.NewFault(409, "price_changed", "The price has changed").With(
	"Nothing was changed. Look again.")

// pricing is what a plan says of a feature, as far as it is told in words.
type pricing struct {
	Model           string `json:"model"`
	PricePerUnit    Number `json:"pricePerUnit"`
	UnitLabel       string `json:"unitLabel"`
	MaxUsage        Number `json:"maxUsage"`
	IncludedUnits   Number `json:"includedUnits"`
	LimitMode       string `json:"limitMode"`
	Thresholds      []int  `json:"thresholds"`
	PackageSize     Number `json:"packageSize"`
	PricePerPackage Number `json:"pricePerPackage"`
	Tiers           []struct {
		UpTo         Number `json:"upTo"`
		PricePerUnit Number `json:"pricePerUnit"`
		FlatFee      Number `json:"flatFee"`
	} `json:"tiers"`
}

// PricePhrases say in words what a feature of a plan costs, and where its use ends.
func PricePhrases(f api.PlanFeature, currency string) (phrases []string) {
	var p pricing
	if json.Unmarshal(f.Pricing, &p) != nil {
		return []string{page.Words(f.PricingType)}
	}
	unit := "unit"
	if p.UnitLabel != "" {
		unit = p.UnitLabel
	}
	price := func(n Number) string { return page.Money(string(n), currency) }
	if f.PricingType == "included" {
		phrases = append(phrases, "included")
	}
	if p.IncludedUnits != "" && p.IncludedUnits != "0" {
		phrases = append(phrases, page.Amount(p.IncludedUnits)+" included")
	}
	switch {
	case len(p.Tiers) > 0:
		phrases = append(phrases, p.tiers(price, unit)...)
	case p.PackageSize != "":
		phrases = append(phrases, price(p.PricePerPackage)+" for each "+page.Amount(p.PackageSize))
	case p.PricePerUnit != "" && p.PricePerUnit != "0":
		phrases = append(phrases, price(p.PricePerUnit)+" a "+unit)
	}
	if p.MaxUsage != "" {
		limit := "limit " + page.Amount(p.MaxUsage)
		if p.LimitMode == "hard" {
			limit += ", hard"
		}
		for at, percent := range p.Thresholds {
			if at == 0 {
				limit += ", told at "
			} else {
				limit += ", "
			}
			limit += strconv.Itoa(percent) + " %"
		}
		phrases = append(phrases, limit)
	}
	return phrases
}

func (p *pricing) tiers(price func(Number) string, unit string) (phrases []string) {
	for i, t := range p.Tiers {
		text := price(t.PricePerUnit) + " a " + unit
		switch {
		case t.UpTo != "inf":
			text += " up to " + page.Amount(t.UpTo)
		case i > 0:
			text += " beyond"
		}
		if t.FlatFee != "" && t.FlatFee != "0" {
			text += ", plus " + price(t.FlatFee)
		}
		phrases = append(phrases, text)
	}
	if p.Model == "volume" {
		phrases[len(phrases)-1] += "; the tier reached prices all units"
	}
	return phrases
}

// Plan is a plan as pages tell it.
type Plan struct {
	api.Plan
	Price    string
	Features []Feature
	// Notes say when it is invoiced before a period ends, and what credits it grants.
	Notes []string
}

// Feature is a feature of a plan, and its price in words.
type Feature struct{ Key, Name, Price string }

// PerInterval is a plan's price with its interval, in words.
func PerInterval(p *api.Plan) string {
	if p.IntervalMonths == 1 {
		return page.Money(p.PriceAmount, p.Currency) + " a month"
	}
	return page.Money(p.PriceAmount, p.Currency) + " every " + strconv.Itoa(p.IntervalMonths) +
		" months"
}

// notes are what a plan does besides what its features cost.
func notes(p *api.Plan) (list []string) {
	if p.InvoiceAbove != "" {
		list = append(list, "An interim invoice is made when unbilled usage passes "+
			page.Money(p.InvoiceAbove, p.Currency))
	}
	for _, c := range p.CreditAllocations {
		text := "Grants " + page.Amount(c.Amount) + " " + c.Denomination + " to the pool " + c.Pool +
			" each period"
		if c.LowBalance != "" {
			text += ", which is low at " + page.Amount(c.LowBalance)
		}
		list = append(list, text)
	}
	return list
}

// InWords tells plans.
func InWords(plans []api.Plan) (shown []Plan) {
	for i := range plans {
		s := Plan{Plan: plans[i], Price: PerInterval(&plans[i]), Notes: notes(&plans[i])}
		for _, f := range plans[i].Features {
			s.Features = append(s.Features, Feature{
				f.Key, f.Name, strings.Join(PricePhrases(f, plans[i].Currency), "; "),
			})
		}
		shown = append(shown, s)
	}
	return shown
}
