package billing

// DecodeUsage decodes a usage event as Apply does.
func DecodeUsage(payload []byte) (RecordUsage, error) {
	c, err := openUsage(&Machine{}, payload)
	return *c.(*RecordUsage), err
}

// UsualUsage reports whether the generated decoder takes a record.
func UsualUsage(payload []byte) bool { return new(RecordUsage).quick(payload) }
