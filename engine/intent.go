package engine

// Intent is an effect on the outside world that a command asked for. The leader's outbox performs
// it and proposes what came of it; the state keeps it until then.
type Intent struct {
	// ID names the intent in the state of its machine.
	ID [16]byte
	// Kind says which provider performs it; kinds are numbered by the domain.
	Kind Kind
	// Payload is encoded by the domain.
	Payload []byte
}
