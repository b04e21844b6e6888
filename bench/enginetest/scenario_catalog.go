package enginetest

import (
	"cmp"
	"fmt"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// catalog applies the document in the lines below it:
//
//	feature KEY [name=…] [cost=…] [labels=a,b]
//	plan KEY [price=…] [currency=…] [months=…] [timing=…] [status=…] [name=…]
//	  allocate POOL amount=… [unit=…] [priority=…] [expires=DAYS] [rollover=…] [cap=…] [hard=yes]
//	  KEY PRICINGTYPE [model=…] [price=…] [max=…] [limit=hard] [reset=…] [included=…]
//	      [pool=… [weight=…]]
//	      [tiers=UPTO:PRICE[:FEE],…,inf:PRICE] [size=…] [package-price=…]
func (s *scenario) catalog(l *line) string {
	doc := parseCatalog(l)
	env := s.environment(l)
	prune := l.has("prune")
	if l.has("dry-run") {
		return reply(s.m.DiffCatalog(env, &doc, prune))
	}
	c := ApplyCatalog(env, doc)
	c.Prune = prune
	result := s.log.Do(billing.KindApplyCatalog, c)
	var r billing.CatalogReply
	l.decode(result.Value, &r)
	return s.outcome(result) + "\n" + reply(r)
}

func reply(r billing.CatalogReply) string {
	var b strings.Builder
	for _, c := range r.Changes {
		fmt.Fprintf(&b, "%s %s %s\n", c.Action, c.Kind, c.Key)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s: %s\n", p.Place, p.Text)
	}
	b.WriteString(when(r.Omitted > 0, "and %d more\n", r.Omitted))
	return b.String()
}

func parseCatalog(l *line) (doc billing.CatalogDocument) {
	for _, text := range strings.Split(l.d.Input, "\n") {
		words := strings.Fields(text)
		if len(words) < 2 {
			continue
		}
		w := newFields(l, words[2:])
		switch words[0] {
		case "feature":
			f := billing.FeatureDocument{Key: quoted(words[1]), Name: w.text("name")}
			f.CostPerUnit, f.HasCost = w.decimal("cost")
			if labels := w.text("labels"); labels != "" {
				f.Labels = strings.Split(labels, ",")
			}
			doc.Features = append(doc.Features, f)
		case "plan":
			p := billing.PlanDocument{
				Key: quoted(words[1]), Name: w.text("name"), Currency: either(w.text("currency"), "USD"),
				BillingTiming: w.text("timing"), Status: w.text("status"), IntervalMonths: 1,
			}
			p.PriceAmount, _ = w.decimal("price")
			p.InvoiceAbove, _ = w.decimal("above")
			if months, ok := w.decimal("months"); ok {
				p.IntervalMonths = uint32(whole(months))
			}
			doc.Plans = append(doc.Plans, p)
		case "allocate":
			p := &doc.Plans[len(doc.Plans)-1]
			p.CreditAllocations = append(p.CreditAllocations, w.allocation(quoted(words[1])))
		default:
			p := &doc.Plans[len(doc.Plans)-1]
			p.Features = append(p.Features, billing.PlanFeatureDocument{
				Key: quoted(words[0]), PricingType: words[1], Pricing: w.pricing(),
			})
		}
		w.allUsed()
	}
	return doc
}

// quoted lets a scenario write what is empty.
func quoted(word string) string {
	if word == `""` {
		return ""
	}
	return word
}

func whole(d decimal.Decimal) int64 {
	var n int64
	if _, err := fmt.Sscan(d.String(), &n); err != nil {
		return 0
	}
	return n
}

// fields are the key=value pairs of a line of a catalog.
type fields struct {
	l      *line
	values map[string]string
}

func newFields(l *line, words []string) fields {
	f := fields{l, map[string]string{}}
	for _, word := range words {
		key, value, found := strings.Cut(word, "=")
		if !found {
			l.d.Fatalf(l.t, "%q is not a key=value", word)
		}
		f.values[key] = value
	}
	return f
}

func (f fields) text(key string) string {
	v := f.values[key]
	delete(f.values, key)
	return v
}

func (f fields) decimal(key string) (d decimal.Decimal, ok bool) {
	text := f.text(key)
	if text == "" {
		return d, false
	}
	d, err := decimal.Parse(text)
	if err != nil {
		f.l.d.Fatalf(f.l.t, "%s: %v", key, err)
	}
	return d, true
}

func (f fields) pricing() billing.PricingDocument {
	d := billing.PricingDocument{
		Model: f.text("model"), UnitLabel: f.text("unit"),
		ResetMode: f.text("reset"), LimitMode: f.text("limit"),
	}
	d.PricePerUnit, _ = f.decimal("price")
	d.Credits.Pool = f.text("pool")
	d.Credits.Weight, _ = f.decimal("weight")
	d.MaxUsage, d.HasMax = f.decimal("max")
	d.IncludedUnits, _ = f.decimal("included")
	if at := f.text("at"); at != "" {
		d.Thresholds = thresholds(at)
	}
	d.PackageSize, _ = f.decimal("size")
	d.PricePerPackage, _ = f.decimal("package-price")
	if tiers := f.text("tiers"); tiers != "" {
		for _, text := range strings.Split(tiers, ",") {
			d.Tiers = append(d.Tiers, f.tier(text))
		}
	}
	return d
}

// thresholds reads percents that commas separate.
func thresholds(text string) (percents []byte) {
	for _, word := range strings.Split(text, ",") {
		percents = append(percents, byte(whole(decimal.MustParse(word))))
	}
	return percents
}

func (f fields) tier(text string) (t billing.TierDocument) {
	parts := strings.Split(text, ":")
	if parts[0] == "inf" {
		t.Infinite = true
	} else {
		t.UpTo = decimal.MustParse(parts[0])
	}
	t.PricePerUnit = decimal.MustParse(parts[1])
	if len(parts) > 2 {
		t.FlatFee = decimal.MustParse(parts[2])
	}
	return t
}

func (f fields) allUsed() {
	for key := range f.values {
		f.l.d.Fatalf(f.l.t, "unknown field %s", key)
	}
}

func (s *scenario) plans(l *printer) {
	for _, p := range s.m.Plans(s.environment(l.line)) {
		fmt.Fprintf(l, "%s version=%d price=%s %s months=%d %s\n", p.Key, p.Version,
			p.PriceAmount, p.Currency, p.IntervalMonths, p.BillingTiming)
		for _, f := range p.Features {
			limit := "unlimited"
			if f.Pricing.HasMax {
				limit = f.Pricing.LimitMode + " limit " + f.Pricing.MaxUsage.String()
			}
			fmt.Fprintf(l, "  %s %s %s %s %s\n", f.Key, f.PricingType,
				either(f.Pricing.Model, "-"), f.Pricing.ResetMode, limit)
		}
	}
}

func either(texts ...string) string { return cmp.Or(texts...) }

func (s *scenario) features(l *printer) {
	for _, f := range s.m.Features(s.environment(l.line)) {
		fmt.Fprintf(l, "%s", f.Key)
		l.WriteString(when(len(f.Labels) > 0, " labels=%s", strings.Join(f.Labels, ",")))
		l.WriteString(when(f.HasCost, " cost=%s", f.CostPerUnit))
		l.WriteString(when(f.Archived, " archived"))
		l.WriteString("\n")
	}
}
