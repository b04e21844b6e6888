package client

// Longest values, in Unicode code points.
const (
	longestID   = 128
	longestName = 128
	longestKey  = 255
)
