package client

// Longest values, in Unicode code points.
const (
	maxID   = 128
	maxName = 128
	maxKey  = 255
)
