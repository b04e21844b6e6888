package billing

// UsageWindow says what the clock of an environment reads when the node's clock reads nowMS, and
// between which instants, both included, a usage event's occurredAt may be then. Where the window
// was widened a moment ago, keys of before may be gone, and what is older is refused all the same.
func (m *Machine) UsageWindow(env uint32, nowMS int64) (now, earliest, latest int64) {
	now = m.EnvironmentNow(env, nowMS)
	return now, now - m.state.Load().limits.Load().WindowMS, now + aheadMS
}
