package billing

// DecodeUsage decodes a usage event as Apply does.
func DecodeUsage(payload []byte) (RecordUsage, error) {
	c, err := decodeUsage(&Machine{}, payload)
	return *c.(*RecordUsage), err
}

// UsualUsage says whether a record is of the shape that is decoded straight ahead.
func UsualUsage(payload []byte) bool {
	_, ok := new(RecordUsage).usual(payload)
	return ok
}
