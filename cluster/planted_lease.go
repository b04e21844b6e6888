//go:build planted_lease

package cluster

// A planted bug that the torture must find: leases outlive the promises that they rest on.
func init() { leaseTenths = 225 }
