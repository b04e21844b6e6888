package billing

import "tollgate/engine"

// Agree makes a version the one that the log has agreed on, whether this build knows it or not.
func Agree(m *Machine, version uint32) { m.state.Load().Log.Agree(version) }

// SinceKind is what Since would return of a record if kind came with a version.
func SinceKind(kind engine.Kind, version uint32, r engine.Record) uint32 {
	return table.CameWith(kind, version).Since(r)
}
