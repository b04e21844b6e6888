package admin

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/scan"
)

// readCatalog reads a catalog document's fields; what they mean is checked by the state machine.
func readCatalog(w *walk, d *billing.CatalogDocument) map[string]reader {
	features := w.array(func(t *tree, place string) {
		var f billing.FeatureDocument
		w.object(t, place, readFeature(w, &f))
		d.Features = append(d.Features, f)
	})
	plans := w.array(func(t *tree, place string) {
		var p billing.PlanDocument
		w.object(t, place, readPlan(w, &p))
		d.Plans = append(d.Plans, p)
	})
	return map[string]reader{
		"features": func(t *tree, place string) {
			d.Features = []billing.FeatureDocument{} // named, though it may be empty
			features(t, place)
		},
		"plans": func(t *tree, place string) {
			d.Plans = []billing.PlanDocument{}
			plans(t, place)
		},
	}
}

func readFeature(w *walk, f *billing.FeatureDocument) map[string]reader {
	return map[string]reader{
		"key": w.text(&f.Key), "name": w.text(&f.Name), "description": w.text(&f.Description),
		"labels": w.array(func(t *tree, place string) {
			var label string
			w.text(&label)(t, place)
			f.Labels = append(f.Labels, label)
		}),
		"costPerUnit": func(t *tree, place string) {
			f.HasCost = true
			w.decimal(&f.CostPerUnit)(t, place)
		},
	}
}

func readPlan(w *walk, p *billing.PlanDocument) map[string]reader {
	return map[string]reader{
		"key": w.text(&p.Key), "name": w.text(&p.Name), "description": w.text(&p.Description),
		"priceAmount": w.decimal(&p.PriceAmount), "currency": w.text(&p.Currency),
		"intervalMonths": w.whole(&p.IntervalMonths), "billingTiming": w.text(&p.BillingTiming),
		"status": w.text(&p.Status), "metadata": w.metadata(&p.Metadata),
		"creditAllocations": w.array(func(t *tree, place string) {
			var c billing.CreditAllocationDocument
			w.object(t, place, readAllocation(w, &c))
			p.CreditAllocations = append(p.CreditAllocations, c)
		}),
		"features": w.array(func(t *tree, place string) {
			var f billing.PlanFeatureDocument
			w.object(t, place, map[string]reader{
				"key": w.text(&f.Key), "pricingType": w.text(&f.PricingType),
				"pricing": func(t *tree, place string) { w.object(t, place, readPricing(w, &f.Pricing)) },
			})
			p.Features = append(p.Features, f)
		}),
	}
}

func readAllocation(w *walk, c *billing.CreditAllocationDocument) map[string]reader {
	return map[string]reader{
		"pool": w.text(&c.Pool), "denomination": w.text(&c.Denomination),
		"currency": w.text(&c.Currency), "amount": w.decimal(&c.Amount),
		"priority": w.integer(&c.Priority, maxPriority), "hardLimit": w.flag(&c.HardLimit),
		"expiresAfterDays": w.whole(&c.ExpiresAfterDays),
		"rolloverPolicy":   w.text(&c.RolloverPolicy),
		"rolloverCap": func(t *tree, place string) {
			c.HasCap = true
			w.decimal(&c.RolloverCap)(t, place)
		},
	}
}

// readCredits reads how a feature burns credits; a weight of 0 would burn none.
func readCredits(w *walk, c *billing.CreditsDocument) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.object(t, place, map[string]reader{
			"pool": w.text(&c.Pool), "weight": w.positive(&c.Weight),
		})
		if len(w.problems) == before && c.Pool == "" {
			w.problem(place+".pool", server.FieldRequired, "is required")
		}
	}
}

func readPricing(w *walk, p *billing.PricingDocument) map[string]reader {
	return map[string]reader{
		"model": w.text(&p.Model), "pricePerUnit": w.decimal(&p.PricePerUnit),
		"unitLabel": w.text(&p.UnitLabel), "includedUnits": w.decimal(&p.IncludedUnits),
		"resetMode": w.text(&p.ResetMode), "limitMode": w.text(&p.LimitMode),
		"packageSize": w.decimal(&p.PackageSize), "pricePerPackage": w.decimal(&p.PricePerPackage),
		"credits": readCredits(w, &p.Credits),
		"maxUsage": func(t *tree, place string) {
			p.HasMax = true
			w.decimal(&p.MaxUsage)(t, place)
		},
		"tiers": w.array(func(t *tree, place string) {
			var tier billing.TierDocument
			w.object(t, place, map[string]reader{
				"pricePerUnit": w.decimal(&tier.PricePerUnit), "flatFee": w.decimal(&tier.FlatFee),
				"upTo": func(t *tree, place string) {
					if t.kind == scan.KindString && t.text == "inf" {
						tier.Infinite = true
						return
					}
					w.decimal(&tier.UpTo)(t, place)
				},
			})
			p.Tiers = append(p.Tiers, tier)
		}),
	}
}

// switchParam reads a query parameter that is true or false.
func switchParam(x *server.Exchange, name string) (on bool, fault *server.Fault) {
	switch value := string(x.Ctx.QueryArgs().Peek(name)); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, server.FieldFault(name, server.FieldNotAllowed, "must be true or false")
	}
}

func (a *catalogs) putCatalog(x *server.Exchange) *server.Fault {
	var document billing.CatalogDocument
	var w walk
	fault := body(x, &w, readCatalog(&w, &document))
	dryRun, fault2 := switchParam(x, "dryRun")
	prune, fault3 := switchParam(x, "prune")
	if prune && w.root != nil && document.Features == nil && document.Plans == nil {
		w.problem("features", server.FieldRequired, "is required, or plans: prune archives what they "+
			"do not name, and this document names neither")
		fault = w.fault()
	}
	if fault != nil && w.root != nil {
		fault = refuseCatalog(x, &w, a.judgeCatalog(x, &document, prune))
	}
	if fault = cmp.Or(fault, fault2, fault3); fault != nil {
		return fault
	}
	if dryRun {
		return a.environment(x, func(env uint32) *server.Fault {
			reply := a.machine.DiffCatalog(env, &document, prune)
			if fault := refuseCatalog(x, &w, reply); fault != nil {
				return fault
			}
			return answerChanges(x, reply)
		})
	}
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	command := billing.ApplyCatalog{Env: env, Document: document, Prune: prune, Actor: x.By()}
	command.FeatureIDs = newIDs(len(document.Features))
	command.PlanIDs = newIDs(len(document.Plans))
	result := a.propose(x, billing.KindApplyCatalog, wire.Encode(nil, &command))
	var reply billing.CatalogReply
	if len(result.Value) > 0 {
		if err := wire.Decode(result.Value, &reply); err != nil {
			a.log.Error("a catalog's reply does not decode", "error", err)
		}
	}
	switch {
	case result.Outcome == engine.OutcomeDone:
		return answerChanges(x, reply)
	case reply.Problem != "":
		reply.Outcome = result.Outcome
		return refuseCatalog(x, &w, reply)
	}
	return server.FaultOf(result.Outcome)
}

func answerChanges(x *server.Exchange, reply billing.CatalogReply) *server.Fault {
	return server.Page(x, "changes", reply.Changes, writeCatalogChange, "")
}

// getCatalog is GET …/catalog: the document back, drafts and archived plans too, so that applying
// it changes nothing.
func (a *catalogs) getCatalog(x *server.Exchange, env uint32) *server.Fault {
	document := a.machine.Catalog(env)
	return server.One(x, 200, &document, writeCatalog)
}
