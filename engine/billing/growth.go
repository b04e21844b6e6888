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

// maxWrapped is in how many commands another may be wrapped: Administer, Once, Submit.
const maxWrapped = 3

// Grows reports whether a record makes the state grow, also where another command carries it.
func Grows(r engine.Record) bool {
	for range maxWrapped {
		var err error
		switch r.Kind {
		case KindOnce:
			var c Once
			err = wire.Decode(r.Payload, &c)
			r = engine.Record{Kind: c.Kind, Payload: c.Payload}
		case KindSubmit:
			var c Submit
			err = wire.Decode(r.Payload, &c)
			r = engine.Record{Kind: c.Kind, Payload: c.Payload}
		case KindAdminister:
			var c Administer
			err = wire.Decode(r.Payload, &c)
			r = engine.Record{Kind: c.Kind, Payload: c.Payload}
		default:
			return growing[r.Kind]
		}
		if err != nil {
			return false // no replica will take it
		}
	}
	return growing[r.Kind]
}
