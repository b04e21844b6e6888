//go:build amd64 || arm64

package prefetch

// Lines asks for the cache lines at the addresses, and does not wait for them.
//
//go:noescape
func Lines(at []Address)
