package billingview

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// Faults are those that both APIs answer in addition to those of commands.
func Faults() []*server.Fault { return []*server.Fault{FaultNoTopUp, FaultNoPortal, faultCounting} }

// BudgetFault adds to a fault the limit of a budget that refuses, where the command names one.
func BudgetFault(fault *server.Fault, r engine.Result) *server.Fault {
	switch r.Outcome {
	case engine.OutcomeBudgetExceeded, engine.OutcomeBudgetFrozen, engine.OutcomeBudgetArchived:
	default:
		return fault
	}
	var refused billing.Refusal
	if len(r.Value) == 0 || wire.Decode(r.Value, &refused) != nil || refused.Budget == "" {
		return fault
	}
	detail := refused.Budget
	if refused.Of != 0 {
		detail += ", " + refused.Of.String()
		if refused.Feature != "" {
			detail += " of " + refused.Feature
		}
		detail += ", " + refused.Window.String() + ": " + refused.Used.String() + " used and " +
			refused.Held.String() + " held of " + refused.Limit.String()
		if refused.Currency != "" {
			detail += " " + refused.Currency
		}
	}
	text := fault.Detail
	if refused.Stays {
		text = "Nothing was recorded. " + reservationStays
	}
	return fault.With(text + " " + detail + ". Log index " +
		strconv.FormatUint(refused.Index, 10) + ".").Adding(func(data *server.JSON) {
		data.Name("budget")
		WriteRefusal(data, &refused)
	})
}

// WriteRefusal writes the limit of a budget that refuses something.
func WriteRefusal(data *server.JSON, r *billing.Refusal) {
	data.Open('{')
	data.Text("budget", r.Budget)
	if r.Of != 0 {
		data.Text("of", r.Of.String())
		data.TextIf("featureKey", r.Feature)
		data.TextIf("currency", r.Currency)
		data.Text("window", r.Window.String())
		data.Decimal("used", r.Used)
		data.Decimal("held", r.Held)
		data.Decimal("limit", r.Limit)
		data.Time("windowStart", r.Start)
		data.Time("windowEnd", r.End)
	}
	data.Uint("logIndex", r.Index)
	data.Close('}')
}

// reservationStays is said of a settlement that was refused.
const reservationStays = "The reservation stays open; what it holds is billed when it expires."

// levelPool is the level of a shortage of credits.
const levelPool = "pool"

// ShortageText says what is not enough, and as of which log entry.
func ShortageText(s *billing.Shortage) string {
	text := "The " + s.Level + " of " + s.FeatureKey + ": used " + s.Used.String() + ", held " +
		s.Held.String() + ", limit " + s.Limit.String() + "; asked for " + s.Asked.String() + "."
	if s.Level == levelPool {
		text = "The credits for " + s.FeatureKey + ": held " + s.Held.String() + " of " +
			s.Limit.String() + "; asked for " + s.Asked.String() + " units."
	}
	if s.Stays {
		text += " " + reservationStays
	}
	return text + " Log index " + strconv.FormatUint(s.LogIndex, 10) + "."
}

// WriteShortage writes what is not enough. Its unit is that of used, held and limit.
func WriteShortage(data *server.JSON, s *billing.Shortage) {
	unit := "units"
	if s.Level == levelPool {
		unit = "credits"
	}
	data.Open('{')
	data.Text("level", s.Level)
	data.Text("featureKey", s.FeatureKey)
	data.Decimal("requestedUnits", s.Asked)
	data.Decimal("used", s.Used)
	data.Decimal("held", s.Held)
	data.Decimal("limit", s.Limit)
	data.Text("unit", unit)
	data.Uint("logIndex", s.LogIndex)
	data.Close('}')
}

// Lacks writes a shortage as a member of an error.
func Lacks(s *billing.Shortage) func(*server.JSON) {
	return func(j *server.JSON) {
		j.Name("shortage")
		WriteShortage(j, s)
	}
}

// ReservationFault adds to a fault what the command says of its reason. why explains the reason for
// which a customer has no access.
func ReservationFault(
	fault *server.Fault, r engine.Result, why func(billing.Reason) string,
) *server.Fault {
	var s billing.Shortage
	if len(r.Value) == 0 || wire.Decode(r.Value, &s) != nil {
		return fault
	}
	index := " Log index " + strconv.FormatUint(s.LogIndex, 10) + "."
	switch r.Outcome {
	case engine.OutcomeReservationShort:
		return fault.With(fault.Detail + " " + ShortageText(&s)).Adding(Lacks(&s))
	case engine.OutcomeNotEntitled:
		return fault.With(why(s.Reason) + " " + fault.Detail + index).Adding(Lacks(&s))
	case engine.OutcomeReservationClosed:
		return fault.With("It is " + s.State + ". " + fault.Detail + index)
	case engine.OutcomeHoldLimit, engine.OutcomeReservationsFull:
		return fault.With("The " + s.Level + " has " + s.Limit.String() + ". " + fault.Detail + index)
	}
	return fault
}
