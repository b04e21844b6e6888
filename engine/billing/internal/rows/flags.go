package rows

// Flags packs booleans, the first into the lowest bit.
func Flags(set ...bool) (bits byte) {
	for i, on := range set {
		if on {
			bits |= 1 << i
		}
	}
	return bits
}
