package billing

import (
	"fmt"

	"tollgate/engine"
)

// since says from which cluster version on the kinds may be proposed that not every build knows.
var since = [...]engine.Since{{First: KindNoteMembership + 1, Version: 1}}

// Since is from which cluster version on a kind may be proposed.
func (m *Machine) Since(kind engine.Kind) uint32 { return engine.SinceOf(since[:], kind) }

// Version is the cluster version that the log has agreed on, and the newest that this build knows.
func (m *Machine) Version() (agreed, known uint32) {
	return m.state.Load().version.Load(), engine.Version
}

func newerVersion(version uint32) error {
	return fmt.Errorf("%w: it has version %d, this build knows up to %d: start a newer build",
		engine.ErrNewerVersion, version, engine.Version)
}

// setVersion raises the cluster version.
type setVersion uint32

func decodeSetVersion(_ *Machine, payload []byte) (command, error) {
	version, ok := engine.ParseSetVersion(payload)
	if !ok {
		return nil, fmt.Errorf("payload of %d bytes", len(payload))
	}
	if version > engine.Version {
		return nil, newerVersion(version)
	}
	return setVersion(version), nil
}

// A version that is not newer changes nothing: two leaders may have asked the members.
func (v setVersion) apply(t *turn) engine.Outcome {
	if uint32(v) > t.version.Load() {
		t.fold(uint64(v))
		t.version.Store(uint32(v))
	}
	return engine.OutcomeDone
}
