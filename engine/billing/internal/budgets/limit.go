package budgets

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/zone"
)

// LimitDocument is a limit of a budget: of units of a feature, of price or of cost.
//
//schema:described client BudgetLimitRequest
type LimitDocument struct {
	Of Measure `wire:"1" json:"of" rule:"required"`
	// Feature is the key of the feature whose usage counts; empty: of all. Units are of one.
	Feature string `wire:"2" json:"featureKey,omitzero" rule:"min=1,max=128"`
	// Currency is that of a price; empty: USD.
	Currency string          `wire:"3" json:"currency,omitzero" rule:"min=3,max=3"`
	Limit    decimal.Decimal `wire:"4" json:"limit" rule:"required"`
	Window   Window          `wire:"5" json:"window" rule:"required"`
	// TimeZone is that of the window; empty: UTC.
	TimeZone string `wire:"6" json:"timeZone,omitzero" rule:"min=1,max=64"`
	// A soft limit refuses nothing.
	Soft bool `wire:"7" json:"mode,omitzero" rule:"oneof=hard|soft"`
	// Thresholds are percents of the limit, ascending.
	Thresholds []byte `wire:"8" json:"thresholds,omitzero" as:"list" rule:"min=1,max=100"`
}

// UTC is the zone that needs no changes.
const UTC = "UTC"

// zoned reports whether the limit's window goes by a zone that the log has to bring.
func (d *LimitDocument) zoned() bool {
	return d.TimeZone != "" && d.TimeZone != UTC && d.Window != WindowLifetime
}

func (d *LimitDocument) valid() bool {
	if d.Of < MeasureUnits || d.Of > MeasureCost || d.Window < WindowHour ||
		d.Window > WindowLifetime || d.Limit.Sign() < 0 || !d.Limit.InRange() ||
		d.Of == MeasureUnits && d.Feature == "" || d.Of != MeasurePrice && d.Currency != "" ||
		len(d.Thresholds) > MaxThresholds ||
		d.TimeZone != "" && !rows.Plain(d.TimeZone, 1, zone.MaxName) {
		return false
	}
	before := byte(0)
	for _, percent := range d.Thresholds {
		if percent <= before || percent > 100 {
			return false
		}
		before = percent
	}
	_, known := decimal.MinorUnits(d.currency())
	return known
}

func (d *LimitDocument) currency() string {
	return catalogs.Either(d.Currency, catalogs.DefaultCurrency)
}

// LimitIdentity is what makes two limits of a budget the same one: it goes on counting where the
// budget is replaced. An empty text stands for every feature, for no currency, or for UTC.
type LimitIdentity struct {
	Of                      Measure
	Window                  Window
	Feature, Currency, Zone string
}

// Identity is that of the limit, whichever defaults its document leaves out.
func (d *LimitDocument) Identity() LimitIdentity {
	id := LimitIdentity{Of: d.Of, Window: d.Window, Feature: d.Feature}
	if d.Of == MeasurePrice {
		id.Currency = d.currency()
	}
	if d.zoned() {
		id.Zone = d.TimeZone
	}
	return id
}

// bounds are those of the window that an instant is in; end is 0 where it never ends.
func (f *Forest) bounds(l *Limit, now int64) (start, end int64) {
	if start, end = l.Start, l.End; now >= end {
		start, end = f.next(l, now)
	}
	if end == rows.Never {
		end = 0
	}
	return start, end
}

// next is the window of a limit that an instant is in, once the present one is over. It begins no
// earlier than that ends: a PUT may have brought other changes of its zone.
func (f *Forest) next(l *Limit, now int64) (start, end int64) {
	start, end = l.Window.Around(now, f.zone(l.Zone))
	return max(start, l.End), end
}

// roll begins the window that an instant is in, and keeps the limit's present one, which is over.
func (f *Forest) roll(row uint32, l *Limit, now int64) {
	if l.Touched {
		f.closeWindow(row, l)
	}
	l.Start, l.End = f.next(l, now)
	l.Used, l.Told, l.Touched, l.Overrun = decimal.Exact{}, 0, false, false
	l.room = 0
}

// closeWindow keeps the window of a limit behind those that were closed before; the oldest goes
// where there are as many as are kept.
func (f *Forest) closeWindow(limit uint32, l *Limit) {
	var row uint32
	if l.Count >= MaxWindows {
		row = l.FirstClosed
		l.FirstClosed = f.windows.Read(row).Next
	} else {
		l.Count++
		if row = f.FreeWindow; row != 0 {
			f.FreeWindow = f.windows.Read(row).Next
		} else {
			row, _ = f.windows.Append()
		}
	}
	*f.windows.Write(row) = Closed{
		Start: l.Start, End: l.End, Used: l.Used, Max: l.Max, Limit: limit, Overrun: l.Overrun,
	}
	if l.FirstClosed == 0 {
		l.FirstClosed = row
	} else {
		f.windows.Write(l.LastClosed).Next = row
	}
	l.LastClosed = row
}

// takeLimit returns a free row for a limit.
func (f *Forest) takeLimit() (row uint32) {
	if row = f.FreeLimit; row != 0 {
		f.FreeLimit = f.limits.Read(row).Next
		return row
	}
	row, _ = f.limits.Append()
	return row
}

// dropLimit frees a limit with its closed windows.
func (f *Forest) dropLimit(row uint32) {
	l := f.limits.Write(row)
	for at := l.FirstClosed; at != 0; {
		next := f.windows.Read(at).Next
		*f.windows.Write(at) = Closed{Next: f.FreeWindow}
		f.FreeWindow, at = at, next
	}
	*l = Limit{Next: f.FreeLimit}
	f.FreeLimit = row
}
