// Package doctor looks at a cluster, or at a node that is about to be started, for what is wrong
// and for what will be wrong soon, and says what to do about it. It changes nothing.
//
// What a node says of itself is Vitals. Examine and Before judge: they are functions of what was
// gathered, so that each check can be shown what it is for.
package doctor

import (
	"fmt"
	"slices"
)

// Level says how bad something is.
type Level int

// The levels, in their order.
const (
	// LevelOK: looked at, and well.
	LevelOK Level = iota
	// LevelWarn: it works, and will not, or not well, under some condition that is to be expected.
	LevelWarn
	// LevelFail: it does not work, or is about to stop working.
	LevelFail
)

var levelNames = [...]string{"ok", "warn", "fail"}

func (l Level) String() string { return levelNames[l] }

// MarshalText writes ok, warn or fail.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *Level) UnmarshalText(text []byte) error {
	i := slices.Index(levelNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("level %q: want ok, warn or fail", text)
	}
	*l = Level(i)
	return nil
}

// Finding is one thing that was looked at.
type Finding struct {
	// Check names what was looked at; see the table in OPERATIONS.md.
	Check string `json:"check"`
	// Node is the node that it is about, "" for the cluster.
	Node  string `json:"node"`
	Level Level  `json:"level"`
	// Says is what was found, Do what to do about it, "" where all is well.
	Says string `json:"says"`
	Do   string `json:"do"`
}

// Report is all that was found: the worst first, else in the order in which it was looked at.
type Report struct {
	// Level is the worst of the findings'.
	Level    Level     `json:"level"`
	Findings []Finding `json:"findings"`
}

// NewReport puts findings into their order.
func NewReport(findings []Finding) Report {
	slices.SortStableFunc(findings, func(a, b Finding) int { return int(b.Level - a.Level) })
	r := Report{Findings: findings}
	if len(findings) > 0 {
		r.Level = findings[0].Level
	}
	return r
}

// Count is how many findings are of a level.
func (r *Report) Count(l Level) (n int) {
	for _, f := range r.Findings {
		if f.Level == l {
			n++
		}
	}
	return n
}

// chart collects findings about one node, or about the cluster.
type chart struct {
	node string
	list []Finding
}

func (c *chart) add(l Level, check, says, do string) {
	c.list = append(c.list, Finding{Check: check, Node: c.node, Level: l, Says: says, Do: do})
}

func (c *chart) ok(check, format string, args ...any) {
	c.add(LevelOK, check, fmt.Sprintf(format, args...), "")
}

func (c *chart) warn(check, says, do string) { c.add(LevelWarn, check, says, do) }

func (c *chart) fail(check, says, do string) { c.add(LevelFail, check, says, do) }
