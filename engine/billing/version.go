package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// since lists the cluster version from which each kind may be proposed, for kinds that older builds
// do not know. The first release knows all of them.
var since = [...]engine.Since{}

// Since is from which cluster version on a record may be proposed.
func (m *Machine) Since(r engine.Record) uint32 {
	return max(engine.SinceOf(since[:], r, unwrap), sinceFields(r))
}

// sinceFields is Since by the fields that a record has.
func sinceFields(r engine.Record) (version uint32) {
	for carried := true; carried; r, carried = unwrap(r) {
		var c CreateSubscription
		if r.Kind == KindCreateSubscription && wire.Decode(r.Payload, &c) == nil {
			version = max(version, c.Since())
		}
	}
	return version
}

// Version is the cluster version that the log has agreed on, and the newest that this build knows.
func (m *Machine) Version() (agreed, known uint32) {
	return m.state.Load().version.Load(), engine.Version
}

// setVersion raises the cluster version.
type setVersion uint32

func decodeSetVersion(_ *Machine, payload []byte) (command, error) {
	version, err := engine.ParseSetVersion(payload, engine.Version)
	return setVersion(version), err
}

// A version that is not newer changes nothing: two leaders may have asked the members.
func (v setVersion) apply(t *turn) engine.Outcome {
	if uint32(v) > t.version.Load() {
		t.fold(uint64(v))
		t.version.Store(uint32(v))
	}
	return engine.OutcomeDone
}
