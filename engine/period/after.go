package period

// After returns the period that begins a number of months after the anchor and lasts
// IntervalMonths; its Number is 0. A subscription that changes its interval at a period's end goes
// on from the same anchor, so that its day of the month survives. ok is false as in Period.
func (c Cycle) After(months uint32) (p Period, ok bool) {
	if !c.valid() || months > maxMonths {
		return Period{}, false
	}
	anchor := civilOf(c.Anchor)
	start, _ := anchor.later(int64(months))
	end, ok := anchor.later(int64(months) + int64(c.IntervalMonths))
	return Period{Start: start, End: end}, ok
}
