package console

import (
	"strings"

	"github.com/go-json-experiment/json"

	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// pricing is what a plan says of a feature, as far as it is told in words.
type pricing struct {
	Model           string `json:"model"`
	PricePerUnit    number `json:"pricePerUnit"`
	UnitLabel       string `json:"unitLabel"`
	MaxUsage        number `json:"maxUsage"`
	IncludedUnits   number `json:"includedUnits"`
	LimitMode       string `json:"limitMode"`
	PackageSize     number `json:"packageSize"`
	PricePerPackage number `json:"pricePerPackage"`
	Tiers           []struct {
		UpTo         number `json:"upTo"`
		PricePerUnit number `json:"pricePerUnit"`
		FlatFee      number `json:"flatFee"`
	} `json:"tiers"`
}

// pricePhrases say in words what a feature of a plan costs, and where its use ends.
func pricePhrases(f api.PlanFeature, currency string) (phrases []string) {
	var p pricing
	if json.Unmarshal(f.Pricing, &p) != nil {
		return []string{page.Words(f.PricingType)}
	}
	unit := "unit"
	if p.UnitLabel != "" {
		unit = p.UnitLabel
	}
	price := func(n number) string { return page.Money(string(n), currency) }
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
		phrases = append(phrases, limit)
	}
	return phrases
}

func (p *pricing) tiers(price func(number) string, unit string) (phrases []string) {
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

// shownPlan is a plan as the catalog's page tells it.
type shownPlan struct {
	api.Plan
	Price    string
	Features []shownFeature
}

type shownFeature struct{ Key, Name, Price string }

// plansInWords are the plans on sale.
func plansInWords(plans []api.Plan) (shown []shownPlan) {
	for i := range plans {
		s := shownPlan{Plan: plans[i], Price: perInterval(&plans[i])}
		for _, f := range plans[i].Features {
			s.Features = append(s.Features, shownFeature{
				f.Key, f.Name, strings.Join(pricePhrases(f, plans[i].Currency), "; "),
			})
		}
		shown = append(shown, s)
	}
	return shown
}
