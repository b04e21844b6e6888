package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tollgate/engine"
)

// EarlyAbout says with which codes a request is refused before its operation is known: no operation
// declares them.
var EarlyAbout = func() string {
	text := "Before its operation is known, a request may be refused with"
	for _, f := range []*Fault{
		FaultNotFound, FaultMethod, faultMalformed, faultSlow, faultHeaders, faultConnections,
	} {
		text += fmt.Sprintf(" %d `%s`,", f.Status, f.Code)
	}
	return strings.TrimSuffix(text, ",") + ". "
}()

// Refusals are the codes with which the routes of an API are refused.
type Refusals struct {
	// Shared are the codes of all routes of a kind, separated by spaces.
	Shared func(*Route) string
	// Own are the codes that an operation has in addition to those.
	Own map[string]string
	// Faults are those that this package does not know.
	Faults []*Fault
}

// Declare adds to each route a Response for each status that it is refused with. A code that has no
// fault, and codes of an operation that is not there, are errors.
func (f *Refusals) Declare(routes []Route) error {
	known, err := f.known()
	if err != nil {
		return err
	}
	left := maps.Clone(f.Own)
	for i := range routes {
		r := &routes[i]
		delete(left, r.Operation)
		byStatus := map[int][]string{}
		codes := strings.Fields(f.Shared(r) + " " + f.Own[r.Operation])
		slices.Sort(codes)
		for _, code := range slices.Compact(codes) {
			fault := known[code]
			if fault == nil {
				return fmt.Errorf("server: %s: the code %s has no fault", r.Operation, code)
			}
			byStatus[fault.Status] = append(byStatus[fault.Status], code)
		}
		declared := slices.Clone(r.Responses)
		for _, status := range slices.Sorted(maps.Keys(byStatus)) {
			lines := make([]string, len(byStatus[status]))
			for k, code := range byStatus[status] {
				lines[k] = code + ": " + known[code].Message
			}
			declared = append(declared, Response{
				Status: status, About: strings.Join(lines, "\n"), Data: RefTo("Fault"), Bare: true,
				Codes: byStatus[status],
			})
		}
		r.Responses = declared
	}
	for operation := range left {
		return fmt.Errorf("server: refusals of an operation that is not there: %s", operation)
	}
	return nil
}

// known are the faults of all codes that these APIs answer.
func (f *Refusals) known() (map[string]*Fault, error) {
	all := []*Fault{
		FaultKey, FaultScope, FaultNotFound, FaultSize, FaultMedia, FaultJSON, FaultFields,
		FaultInternal, faultDamaged, faultRate, faultShare,
	}
	for o := range outcomes {
		if fault := FaultOf(engine.Outcome(o)); fault != nil {
			all = append(all, fault)
		}
	}
	known := map[string]*Fault{}
	for _, fault := range append(all, f.Faults...) {
		switch other := known[fault.Code]; {
		case other == nil:
			known[fault.Code] = fault
		case other.Status != fault.Status:
			return nil, fmt.Errorf("server: the code %s has two statuses, %d and %d",
				fault.Code, other.Status, fault.Status)
		}
	}
	return known, nil
}
