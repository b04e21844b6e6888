package tollgate

// RoleDown is the role of a member that does not answer.
const RoleDown = "down"

// IsDown reports whether it does not answer.
func (m ClusterMember) IsDown() bool { return m.Role == RoleDown }

// Down are the members that do not answer.
func (s ClusterStatus) Down() (members []ClusterMember) {
	for _, m := range s.Members {
		if m.IsDown() {
			members = append(members, m)
		}
	}
	return members
}

// Voters returns how many members vote, and how many of these answer.
func (s ClusterStatus) Voters() (all, answer int) {
	for _, m := range s.Members {
		if m.Voter {
			all++
			if m.Reachable {
				answer++
			}
		}
	}
	return all, answer
}

// String is the group and the words.
func (r ClusterReason) String() string {
	if r.Group == "" {
		return r.Text
	}
	return r.Group + ": " + r.Text
}
