package cluster

import (
	"errors"
	"fmt"
	"strings"
)

// ErrMembers means that the members were not changed, and why.
var ErrMembers = errors.New("cluster: the members were not changed")

// unchangedError is an ErrMembers.
type unchangedError struct{ why error }

func unchanged(format string, args ...any) error {
	return &unchangedError{fmt.Errorf(format, args...)}
}

func (e *unchangedError) Error() string { return ErrMembers.Error() + ": " + e.why.Error() }

func (e *unchangedError) Unwrap() []error { return []error{ErrMembers, e.why} }

// WhyUnchanged is what an ErrMembers gives for a reason, for those who say by themselves that the
// members were not changed; any other error is returned as it is.
func WhyUnchanged(err error) error {
	if e := (*unchangedError)(nil); errors.As(err, &e) {
		return e.why
	}
	return err
}

// noMemberError reports whether a group has no member of that name.
type noMemberError struct {
	id      string
	members []string
	// was: it has been one since this node's process began.
	was bool
}

// WasMember reports whether an error is the refusal to remove who is no longer a member, and has
// been one since the node's process began: whoever asked for that removal may not have heard of its
// end.
func WasMember(err error) bool {
	var nobody *noMemberError
	return errors.As(err, &nobody) && nobody.was
}

func (e *noMemberError) Error() string {
	return fmt.Sprintf("%s is not a member (members: %s)", e.id, strings.Join(e.members, ", "))
}
