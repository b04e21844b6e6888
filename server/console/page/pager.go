package page

import (
	"fmt"
	"strings"
)

// Pager is the way to the first and to the next page of a list, and how many rows this one has.
// An address is empty if the list has no such page.
type Pager struct{ First, Next, Count string }

// Of is the pager of a page that has so many rows; what is the name of one.
func (p Pager) Of(rows int, what string) Pager {
	p.Count = Count(rows, what)
	switch {
	case rows == 0:
		p.Count = ""
	case p.Next != "":
		p.Count += " on this page; more on the next."
	case p.First != "":
		p.Count += " on this page, the last one."
	}
	return p
}

// Within is the pager of a page that begins behind so many rows of a list whose length is known.
func (p Pager) Within(behind, rows, all int, what string) Pager {
	if p.Count = Count(all, what); rows == 0 {
		p.Count = ""
	} else if rows < all {
		p.Count = fmt.Sprintf("%s to %s of %s", Amount(behind+1), Amount(behind+rows), p.Count)
	}
	return p
}

// Count is how many of something there are: 1 run, 1,200 deliveries, 2 keys.
func Count(n int, what string) string {
	root, y := strings.CutSuffix(what, "y")
	switch {
	case n == 1:
	case y && !strings.ContainsAny(root[max(len(root)-1, 0):], "aeiou"):
		what = root + "ies"
	default:
		what += "s"
	}
	return Amount(n) + " " + what
}
