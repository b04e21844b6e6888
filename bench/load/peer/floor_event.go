package peer

import (
	"bytes"
	"math/rand/v2"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// Bounds of an event's texts, in bytes.
const (
	floorKey  = 255
	floorText = 128
)

var oneUnit = decimal.FromInt(1)

// readUsage reads the next event of a body as strictly as a node does, and returns what follows it.
// It refuses what is right and rare, too: escapes and other letters than ASCII in texts, other time
// zones than UTC, members that hold ids or metadata.
func readUsage(b []byte, r *billing.RecordUsage) (rest []byte, ok bool) {
	*r = billing.RecordUsage{Env: 1, Units: oneUnit}
	if b = unblank(b); len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	for seen := uint(0); ; {
		var name []byte
		if name, b, ok = readText(unblank(b[1:]), floorText); !ok {
			return nil, false
		}
		if b = unblank(b); len(b) == 0 || b[0] != ':' {
			return nil, false
		}
		b = unblank(b[1:])
		bit := uint(0)
		switch string(name) {
		case "eventIdempotencyKey":
			bit = 1
			r.KeyText, b, ok = readText(b, floorKey)
		case "eventName":
			bit = 2
			r.EventName, b, ok = readText(b, floorText)
		case "customerReferenceId":
			bit = 4
			r.Customer, b, ok = readText(b, floorText)
		case "occurredAt":
			bit = 8
			var text []byte
			if text, b, ok = readText(b, floorText); ok {
				r.OccurredAt, ok = readInstant(text)
			}
		case "featureKey":
			bit = 16
			r.FeatureKey, b, ok = readText(b, floorText)
		case "usageUnits":
			bit = 32
			r.Units, b, ok = readAmount(b)
		case "flowId":
			bit = 64
			r.FlowID, b, ok = readText(b, floorText)
		case "costAmount":
			bit = 128
			r.Cost, b, ok = readAmount(b)
			r.HasCost = ok
		}
		if b = unblank(b); !ok || bit == 0 || seen&bit != 0 || len(b) == 0 {
			return nil, false
		}
		if seen |= bit; b[0] == '}' {
			r.Key = billing.UsageKey(r.Env, r.KeyText)
			r.Attempt = rand.Uint32() | 1
			return b[1:], seen&15 == 15
		}
		if b[0] != ',' {
			return nil, false
		}
	}
}

func unblank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// readText reads a string that is not empty.
func readText(b []byte, most int) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	b = b[1:]
	n := bytes.IndexByte(b, '"')
	if n < 1 || n > most {
		return nil, nil, false
	}
	wrong := false
	for _, c := range b[:n] {
		wrong = wrong || c-0x20 >= 0x7f-0x20 || c == '\\'
	}
	return b[:n], b[n+1:], !wrong
}

// readAmount reads a number that is not negative.
func readAmount(b []byte) (d decimal.Decimal, rest []byte, ok bool) {
	n := 0
	for n < len(b) && (b[n]-'0' < 10 || b[n] == '.' || b[n] == '-' || b[n] == '+' ||
		b[n]|0x20 == 'e') {
		n++
	}
	d, err := decimal.Parse(b[:n])
	return d, b[n:], err == nil && d.Sign() >= 0
}

// readInstant reads an RFC 3339 time in UTC, in milliseconds since 1970.
func readInstant(t []byte) (ms int64, ok bool) {
	const form = "0000-00-00T00:00:00"
	if len(t) <= len(form) || t[len(t)-1] != 'Z' {
		return 0, false
	}
	for i := range form {
		if form[i] == '0' && t[i]-'0' > 9 || form[i] != '0' && form[i] != t[i] {
			return 0, false
		}
	}
	two := func(at int) int64 { return 10*int64(t[at]-'0') + int64(t[at+1]-'0') }
	year, month, day := 100*two(0)+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	leap := year%4 == 0 && (year%100 != 0 || year%400 == 0)
	long := [...]int64{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if leap && month == 2 {
		long++
	}
	if day > long {
		return 0, false
	}
	if fraction := t[len(form) : len(t)-1]; len(fraction) > 0 {
		if fraction[0] != '.' || len(fraction) < 2 || len(fraction) > 10 {
			return 0, false
		}
		for i, unit := 1, int64(100); i < len(fraction); i, unit = i+1, unit/10 {
			if fraction[i]-'0' > 9 {
				return 0, false
			}
			ms += unit * int64(fraction[i]-'0')
		}
	}
	// Days by years that begin in March.
	if month -= 3; month < 0 {
		month, year = month+12, year-1
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*month+2)/5 + day - 1 - 719_468
	return ms + 1000*(second+60*(minute+60*(hour+24*days))), true
}
