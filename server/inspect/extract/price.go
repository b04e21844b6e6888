package extract

import (
	"regexp"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/tree"
)

var (
	onRequest = regexp.MustCompile(`(?i)\b(custom|individual) (pricing|quote)\b|` +
		`\b(pricing|prices?) (up)?on request\b|\bcontact (us|sales) for (a )?(pricing|quote|price)`)
	priceWords = regexp.MustCompile(`(?:` + sign + `|\b(?:` + codes + `|S?Fr\.) ?) ?` + amount + rest +
		`|\b` + amount + ` ?(?:[€£¥円₹₩₽₺₫₴₱]|zł\b|(?:` + codes + `)\b)` + rest)
	freeWords  = regexp.MustCompile(`(?i)\bfree (plan|tier|forever)\b|\bfor free\b|\b100% free\b`)
	usageWords = regexp.MustCompile(`(?i)\bpay[- ]as[- ]you[- ]go\b|\busage[- ]based\b|` +
		`\bper (request|call|token|1,?000|million|GB|message|event)\b`)
	monthWords = regexp.MustCompile(`(?i)/ ?(mo|month|yr|year)\b|\bper (month|year|seat|user)\b|` +
		`\b(monthly|annual) (plan|billing|subscription)`)
)

// What prices are made of: a currency's sign or code, a number, and what it is for.
const (
	sign   = `(?:\b(?:US|AU|CA|NZ|HK|SG|NT|MX|A|C|S|R))?\$|[€£¥￥₹₩₽₺₫฿₴₦₪₱]`
	codes  = `USD|EUR|GBP|JPY|CHF|AUD|CAD|NZD|BRL|INR|CNY|SEK|NOK|DKK|PLN|CZK|SGD|HKD|MXN|ZAR|KRW`
	amount = `(?:\d{1,3}(?:[ .,'’]\d{3})+(?:[.,]\d{1,2})?\b|\d+(?:[.,]\d+)?)`
	rest   = `(?: ?(?:/|per\b) ?(?:1,?000 |million )?[A-Za-z]+| each\b)?`
)

// readable is how much visible text a page with scripts must have to be read without them, in
// bytes.
const readable = 200

// prices reads what it costs.
func (r *reader) prices() {
	r.offers()
	r.pricingFile()
	pages := r.counts(collect.RolePricing)
	r.f.PricingRead = true
	for _, o := range pages {
		p := r.page(o)
		r.f.PricingPages = append(r.f.PricingPages, o.ID)
		r.f.PricingRead = r.f.PricingRead && !p.Unread && (p.Letters >= readable || p.Scripts == 0)
	}
	for _, role := range []string{collect.RoleHome, collect.RoleLLMs} {
		pages = append(pages, r.counts(role)...)
	}
	seen := map[string]bool{}
	for _, o := range pages {
		blocks := r.page(o).Blocks
		for i := range blocks {
			b := &blocks[i]
			for _, at := range priceWords.FindAllStringIndex(b.Text, 10) {
				price := b.Text[at[0]:at[1]]
				evidence := quotes(o.ID, b.Quote(at[0], at[1]))
				if len(evidence) == 0 || seen[price] || len(r.f.Prices) == maxPrices {
					continue
				}
				seen[price] = true
				r.f.Prices = append(r.f.Prices, document.Extracted(price, evidence...))
			}
		}
	}
	for _, m := range []struct {
		model string
		is    *regexp.Regexp
	}{
		{"usage", usageWords}, {"subscription", monthWords}, {"free", freeWords}, {"on_request", onRequest},
	} {
		for _, o := range pages {
			blocks := r.page(o).Blocks
			for i := range blocks {
				if r.f.Model != nil {
					return
				}
				b := &blocks[i]
				if at := m.is.FindStringIndex(b.Text); at != nil {
					from, to := near(b.Text, at)
					if e, ok := quoted(o.ID, b.Quote(from, to)); ok {
						r.f.Model = document.Extracted(m.model, e)
					}
				}
			}
		}
	}
}

// plan reads an offer, whatever it calls its members; nil where it states no price.
func (r *reader) plan(obs, text string, n *tree.Node) {
	first := func(names ...string) *string {
		for _, name := range names {
			if value := n.Of(name).AsScalar(); value != "" {
				value = tree.Cut(value, maxValue)
				return &value
			}
		}
		return nil
	}
	p := document.Plan{
		Name: first("name", "title", "id"), Price: first("price", "amount", "priceAmount", "lowPrice",
			"monthly", "monthlyPrice", "price_monthly", "price_cents"),
		Currency: first("priceCurrency", "currency"),
		Interval: first("interval", "billingPeriod", "period", "unit", "unitText", "billing_period"),
	}
	if p.Price == nil || len(r.f.Plans) == maxPlans {
		return
	}
	if e, ok := quoted(obs, n.Quote(text, maxQuote)); ok {
		r.f.Plans = append(r.f.Plans, document.Extracted(p, e))
	}
}

// offers reads JSON-LD.
func (r *reader) offers() {
	for _, role := range spoken {
		for _, o := range r.counts(role) {
			for _, block := range r.page(o).Data {
				if root, err := tree.ParseJSON(block); err == nil {
					r.data = append(r.data, data{o.ID, block, root})
				}
			}
		}
	}
	for _, d := range r.data {
		walk(d.root, 0, func(n *tree.Node) {
			if kind := n.TextOf("@type"); kind == "Offer" || kind == "AggregateOffer" {
				r.plan(d.obs, d.text, n)
			}
		})
	}
}

// walk calls do for each map of a tree, not deeper than offers lie.
func walk(n *tree.Node, depth int, do func(*tree.Node)) {
	if depth > 12 {
		return
	}
	if n.Is(tree.Map) {
		do(n)
	}
	for i := range n.Items {
		walk(&n.Items[i], depth+1, do)
	}
}

// pricingFile reads pricing.json: a list of plans, by one name or another.
func (r *reader) pricingFile() {
	for o, root := range r.objects(collect.RolePricingJSON) {
		items := 0
		for _, name := range []string{"plans", "tiers", "offers", "products", "prices"} {
			for _, item := range root.Of(name).List() {
				items++
				r.plan(o.ID, o.Text, &item)
			}
		}
		if items > 0 {
			r.f.PricingPages = append(r.f.PricingPages, o.ID)
		}
	}
}

// product reads how the product describes itself, the surest source first.
func (r *reader) product() {
	var names, abouts, kinds, titles []*document.Fact[string]
	for _, role := range []string{collect.RoleHome, collect.RoleLLMs, collect.RoleHomeMarkdown} {
		answers := r.counts(role)
		if role == collect.RoleLLMs {
			answers = r.llms()
		}
		for _, o := range answers {
			p := r.page(o)
			names = append(names, fact(p.SiteName.Value, o.ID, p.SiteName.Quote))
			abouts = append(abouts, fact(p.Description.Value, o.ID, p.Description.Quote))
			titles = append(titles, fact(p.Title.Value, o.ID, p.Title.Quote))
			for _, block := range p.Data {
				root, err := tree.ParseJSON(block)
				if err != nil {
					continue
				}
				walk(root, 0, func(n *tree.Node) {
					said := func(name string) *document.Fact[string] {
						return fact(n.TextOf(name), o.ID, n.Of(name).Quote(block, maxQuote))
					}
					switch n.TextOf("@type") {
					case "Organization", "Product", "SoftwareApplication", "WebApplication", "WebSite", "WebAPI":
						names, abouts = append(names, said("name")), append(abouts, said("description"))
						kinds = append(kinds, said("applicationCategory"), said("category"))
					}
				})
			}
		}
	}
	names = append(names, titles...)
	for _, api := range r.f.APIs {
		said := func(t openapi.Text) *document.Fact[string] { return fact(t.Value, api.Obs, t.Quote) }
		names, abouts = append(names, said(api.Title)), append(abouts, said(api.About))
	}
	r.f.Product = document.Product{
		Name: first(names), Description: first(abouts), Category: first(kinds),
	}
}

func first(facts []*document.Fact[string]) *document.Fact[string] {
	for _, f := range facts {
		if f != nil {
			return f
		}
	}
	return nil
}
