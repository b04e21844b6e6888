// Package limits has prototypes that do the least any design must do, as benchmarks. See DESIGN.md.
package limits
