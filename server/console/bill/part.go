package bill

import (
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"

	"tollgate/engine/decimal"
	"tollgate/server/console/page"
	"tollgate/server/document"
)

// tier is a tier that prices units: up to where it ends, which "inf" does not.
type tier struct {
	UpTo         Number `json:"upTo"`
	PricePerUnit Number `json:"pricePerUnit"`
	FlatFee      Number `json:"flatFee"`
}

// whole reports whether a line's only part is all of its units at one price, so that the line says
// it itself.
func (i Item) whole() bool {
	return len(i.Parts) == 1 && i.Parts[0].Kind == "tier" && i.Parts[0].FlatFee == ""
}

// Price is the price of a unit, without its currency; of several prices it says so.
func (i Item) Price(currency string) string {
	switch {
	case i.UnitPrice != "":
		return amountOf(i.UnitPrice, currency)
	case i.whole():
		return amountOf(i.Parts[0].UnitPrice, currency)
	case len(i.Tiers) > 0:
		return "by tier"
	}
	return ""
}

// parts are the rows that say how the line's amount is made. Where the answer does not say which
// units are whose, they are the tiers with their prices.
func (i Item) parts(currency string) (rows []document.Part) {
	price := func(n stdjson.Number) string { return amountOf(n, currency) }
	if len(i.Parts) == 0 {
		var tiers []tier
		if len(i.Tiers) > 0 && json.Unmarshal(i.Tiers, &tiers) != nil {
			return nil
		}
		for at, t := range tiers {
			rows = append(rows, document.Part{
				What: tierName(string(t.UpTo), at == 0), Price: amountOf(t.PricePerUnit, currency),
			})
			if t.FlatFee != "" && t.FlatFee != "0" {
				rows = append(rows, document.Part{
					What: "flat fee of this tier", Price: amountOf(t.FlatFee, currency),
				})
			}
		}
		return rows
	}
	if i.whole() {
		return nil
	}
	for at, p := range i.Parts {
		row := document.Part{
			What: p.Kind, Quantity: page.Amount(p.Units), Price: price(p.UnitPrice), Amount: price(p.Amount),
		}
		switch p.Kind {
		case "included":
			row.Price = ""
		case "units":
			row.What = "priced"
		case "packages":
			row.What = "packages begun"
		case "tier":
			row.What = tierName(p.UpTo.String(), at == 0 || i.Parts[at-1].Kind != "tier")
		}
		if p.FlatFee == "" {
			rows = append(rows, row)
			continue
		}
		row.Amount = price(without(p.Amount, p.FlatFee))
		rows = append(rows, row, document.Part{What: "flat fee", Amount: price(p.FlatFee)})
	}
	return rows
}

// tierName names a tier by where it ends.
func tierName(upTo string, first bool) string {
	switch {
	case upTo != "" && upTo != "inf":
		return "up to " + page.Amount(upTo)
	case first:
		return "all units"
	}
	return "beyond"
}

// without is an amount less a fee that is in it; the amount where they are not exact numbers.
func without(amount, fee stdjson.Number) stdjson.Number {
	whole, err := decimal.Parse(string(amount))
	part, err2 := decimal.Parse(string(fee))
	if rest, ok := whole.Sub(part); ok && err == nil && err2 == nil {
		return stdjson.Number(rest.String())
	}
	return amount
}
