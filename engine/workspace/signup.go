package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// SignUp creates a workspace with one key, without a person. It holds only hashes of the key and of
// the claim code. Repeating it with the same ids succeeds and changes nothing. The reply of
// OutcomeSignupLimited is a RetryReply.
type SignUp struct {
	ID        [16]byte `wire:"1"`
	KeyID     [16]byte `wire:"2"`
	KeyHash   [32]byte `wire:"3"` // SHA-256 of the whole key
	ClaimHash [32]byte `wire:"4"` // SHA-256 of the whole claim code
	Scopes    Scopes   `wire:"5"`
	Label     string   `wire:"6"` // ≤ 80 characters
	// Source is a hash of the caller's address (IPv6: of its /64), Wider one of its /56; zero is
	// not counted.
	Source [16]byte `wire:"7"`
	Wider  [16]byte `wire:"18"`
	// Network is the first address of the caller's /48, or of its /24 as IPv6 maps IPv4; zero is
	// not known.
	Network [16]byte `wire:"19"`
}

// sources are what a signup counts for, with how many of each may come in an hour: many addresses
// of one network are rarely as many people.
func (c *SignUp) sources(perHour uint32) []signups {
	all := []signups{{Source: c.Source, Count: perHour}}
	limit := uint64(perHour)
	for _, wider := range [...][16]byte{c.Wider, c.Network} {
		if limit *= 2; wider != ([16]byte{}) {
			all = append(all, signups{Source: wider, Count: uint32(min(limit, 1<<32-1))})
		}
	}
	return all
}

// networkFull reports whether the workspaces of the caller's network are at their storage limit,
// those included that were removed.
func (c *SignUp) networkFull(x *spaces, t *machine.Turn) engine.Outcome {
	held, left := x.rooms.network(c.Network)
	switch {
	case held+workspaceRowBytes > MaxNetworkBytes:
		t.Answer(&FullReply{Used: held, Limit: MaxNetworkBytes})
		return engine.OutcomeNetworkFull
	case left > MaxNetworkGoneBytes:
		t.Answer(&FullReply{Used: left, Limit: MaxNetworkGoneBytes})
		return engine.OutcomeNetworkFull
	}
	return engine.OutcomeDone
}

// limited reports whether the hourly limit of the caller's networks is reached.
func (c *SignUp) limited(x *spaces, t *machine.Turn) engine.Outcome {
	if full := c.networkFull(x, t); full != engine.OutcomeDone {
		return full
	}
	fresh := uint64(0)
	for _, source := range c.sources(x.policy.SignupsPerHour) {
		known := x.sources.Find(source.Source, t.Stamp-hourMS)
		if known == 0 {
			fresh++
			continue
		}
		if s := x.sources.Table.Read(known); s.Count >= source.Count {
			t.Answer(&RetryReply{ResetsAt: s.At + hourMS, Limit: source.Count})
			return engine.OutcomeSignupLimited
		}
	}
	if x.sources.To-x.sources.From+fresh > x.sources.Max {
		return engine.OutcomeKeysFull
	}
	return engine.OutcomeDone
}

func (c *SignUp) apply(x *spaces, t *machine.Turn) engine.Outcome {
	if row := x.workspaces.find(c.ID); row != 0 {
		k := x.keyOf(&c.KeyHash)
		if k != 0 && x.keys.Read(k).Workspace == row && x.workspaces.Read(row).GoneAt == 0 {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if x.keyOf(&c.KeyHash) != 0 {
		return engine.OutcomeIDsContradict
	}
	if refused := c.allowed(x, t); refused != engine.OutcomeDone {
		return refused
	}

	x.countSignup(t, c)
	row, _ := x.openWorkspace(t, workspace{
		ID: c.ID, Label: c.Label, Claim: c.ClaimHash, Network: c.Network,
	})
	x.addKey(t, row, key{KeyView: KeyView{ID: c.KeyID, Scopes: c.Scopes}, Hash: c.KeyHash})
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// allowed reports whether a stranger may have another workspace.
func (c *SignUp) allowed(x *spaces, t *machine.Turn) engine.Outcome {
	if x.policy.SignupsPerHour == 0 || x.rooms.strangers+workspaceRowBytes > MaxStrangersBytes ||
		x.rooms.gone > MaxGoneBytes {
		return engine.OutcomeSignupOff
	}
	return c.limited(x, t)
}

// countSignup counts a workspace for where it is signed up from.
func (x *spaces) countSignup(t *machine.Turn, c *SignUp) {
	for _, source := range c.sources(x.policy.SignupsPerHour) {
		if known := x.sources.Find(source.Source, t.Stamp-hourMS); known != 0 {
			x.sources.Table.Write(known).Count++
		} else {
			x.sources.Keep(signups{Source: source.Source, At: t.Stamp, Count: 1})
		}
	}
}
