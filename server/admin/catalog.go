package admin

import (
	"cmp"
	"reflect"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/schema"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/scan"
)

// readCatalog reads a catalog document's fields; what they mean is checked by the state machine.
func readCatalog(w *walk, d *billing.CatalogDocument) map[string]reader {
	return w.fields(reflect.ValueOf(d).Elem())
}

// fields are the readers of a struct's fields, by the names in their tags.
func (w *walk) fields(of reflect.Value) map[string]reader {
	all := map[string]reader{}
	for f, v := range of.Fields() {
		tag, err := schema.Parse(f.Tag)
		if err != nil || tag.Name == "" { // cmd/generate refuses the first
			continue
		}
		read := w.value(v)
		if given := of.FieldByName(tag.If); given.IsValid() {
			value := read
			read = func(t *tree, place string) {
				given.SetBool(true)
				value(t, place)
			}
		}
		all[tag.Name] = read
	}
	switch d := of.Addr().Interface().(type) {
	case *billing.PricingDocument:
		all["credits"] = readCredits(w, &d.Credits)
		all["thresholds"] = w.percents(&d.Thresholds)
	case *billing.TierDocument:
		all["upTo"] = func(t *tree, place string) {
			if d.Infinite = t.kind == scan.KindString && t.text == "inf"; !d.Infinite {
				w.decimal(&d.UpTo)(t, place)
			}
		}
	}
	return all
}

// value is the reader of a field. A list that is named is not nil, though it may be empty.
func (w *walk) value(v reflect.Value) reader {
	switch dst := v.Addr().Interface().(type) {
	case *string:
		return w.text(dst)
	case *bool:
		return w.flag(dst)
	case *uint32:
		return w.whole(dst)
	case *int64:
		return w.integer(dst, maxPriority)
	case *decimal.Decimal:
		return w.decimal(dst)
	case *[]byte:
		return w.metadata(dst)
	}
	if v.Kind() == reflect.Struct {
		return func(t *tree, place string) { w.object(t, place, w.fields(v)) }
	}
	each := w.array(func(t *tree, place string) {
		item := reflect.New(v.Type().Elem()).Elem()
		w.value(item)(t, place)
		v.Set(reflect.Append(v, item))
	})
	return func(t *tree, place string) {
		v.Set(reflect.MakeSlice(v.Type(), 0, len(t.items)))
		each(t, place)
	}
}

// readCredits reads how a feature burns credits; a weight of 0 would burn none.
func readCredits(w *walk, c *billing.CreditsDocument) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.object(t, place, map[string]reader{
			"pool": w.text(&c.Pool), "weight": w.positive(&c.Weight),
		})
		w.when(len(w.problems) == before && c.Pool == "", place+".pool", server.FieldRequired,
			"is required")
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
		return false, form.NotAllowed("true", "false").Fault(name)
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
	// A comparison names more mistakes than the command does, and leaves no trace of them in the log.
	command := billing.ApplyCatalog{Document: document, Prune: prune, Actor: x.By()}
	fault = a.environment(x, func(env uint32) *server.Fault {
		command.Env = env
		reply := a.machine.DiffCatalog(env, &document, prune)
		if fault := refuseCatalog(x, &w, reply); fault != nil || !dryRun {
			return fault
		}
		return answerChanges(x, reply)
	})
	if fault != nil || dryRun {
		return fault
	}
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
	case len(reply.Problems) > 0:
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
