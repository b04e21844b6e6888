//go:build planted_blind

package cluster

// No bug, but what would find one from inside: nodes do not compare their states, and none ends for
// the difference. What is planted with it has to show in answers.
func init() { comparesStates = false }
