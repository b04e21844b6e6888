package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// growing are the commands that make the state grow for good, or for as long as keys are kept. What
// ends, frees, corrects, replaces or pays something is not among them. TestWhatGrowsIsKnown places
// every kind of the registry.
var growing = map[engine.Kind]bool{
	KindRecordUsage: true, KindRecordProbedUsage: true,
	KindCreateAccount: true, KindCreateKey: true, KindApplyCatalog: true,
	KindCreateCustomer: true, KindCreateSubscription: true, KindChangePlan: true,
	KindCreatePool: true, KindGrantCredits: true, KindDeductCredits: true,
	KindOpenCheckout: true, KindKeepAnswer: true, KindAdvanceClock: true,
	KindCreateWebhookEndpoint: true,
}

// Grows reports whether a record makes the state grow, also where another command carries it.
func Grows(r engine.Record) bool {
	for inner, carried := unwrap(r); carried; inner, carried = unwrap(r) {
		r = inner
	}
	return growing[r.Kind]
}

// unwrap returns the record that another one carries; false where it carries none, or no replica
// will take it.
func unwrap(r engine.Record) (inner engine.Record, carried bool) {
	switch r.Kind {
	case KindOnce:
		var c Once
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	case KindSubmit:
		var c Submit
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	case KindAdminister:
		var c Administer
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	}
	return inner, false
}
