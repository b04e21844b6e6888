package cmd_test

import (
	"go/types"
	"path/filepath"
	"slices"
)

// arrows are the uses between the files of a package. An arrow goes from file a to file b when a
// uses a declaration at package level, or a method, that b declares; fields and generated files do
// not count. However many uses there are, it is one arrow.
type arrows struct {
	files []string
	to    [][]bool // to[a][b]
	count int
}

func arrowsOf(p *checkedPackage) *arrows {
	g := &arrows{}
	number := map[string]int{}
	for _, s := range p.byHand() {
		number[s.path] = len(g.files)
		g.files = append(g.files, filepath.Base(s.path))
	}
	g.to = make([][]bool, len(g.files))
	for i := range g.to {
		g.to[i] = make([]bool, len(g.files))
	}
	set := p.files[0].set
	for use, object := range p.info.Uses {
		if object.Pkg() != p.types || object.Parent() != p.types.Scope() && !isMethod(object) {
			continue
		}
		a, known := number[set.Position(use.Pos()).Filename]
		b, declared := number[set.Position(object.Pos()).Filename]
		if known && declared && a != b && !g.to[a][b] {
			g.to[a][b] = true
			g.count++
		}
	}
	return g
}

func isMethod(object types.Object) bool {
	f, ok := object.(*types.Func)
	return ok && f.Signature().Recv() != nil
}

// back counts the arrows that go back up: those against the order of the files that has the fewest,
// as far as a greedy order (Eades, Lin and Smyth, 1993) and moves of single files find it.
func (g *arrows) back() (count int) {
	order := g.settle(g.greedy())
	for i, a := range order {
		for _, b := range order[:i] {
			if g.to[a][b] {
				count++
			}
		}
	}
	return count
}

func (g *arrows) greedy() []int {
	left := make([]int, len(g.files))
	for i := range left {
		left[i] = i
	}
	var above, below []int
	for len(left) > 0 {
		best, most, last := 0, -len(g.files), false
		for i, a := range left {
			in, out := 0, 0
			for _, b := range left {
				in += one(g.to[b][a])
				out += one(g.to[a][b])
			}
			if out == 0 {
				best, last = i, true
				break
			}
			if out-in > most {
				best, most = i, out-in
			}
		}
		if last {
			below = append(below, left[best])
		} else {
			above = append(above, left[best])
		}
		left = slices.Delete(left, best, best+1)
	}
	slices.Reverse(below)
	return append(above, below...)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// settle moves single files to where they have the fewest arrows back, until none gains.
func (g *arrows) settle(order []int) []int {
	for moved := true; moved; {
		moved = false
		for i := range order {
			a := order[i]
			rest := slices.Delete(slices.Clone(order), i, i+1)
			cost := 0 // of a before all others
			for _, b := range rest {
				cost += one(g.to[b][a])
			}
			present, best, at := 0, cost, 0
			for j := 0; ; j++ {
				if j == i {
					present = cost
				}
				if cost < best {
					best, at = cost, j
				}
				if j == len(rest) {
					break
				}
				cost += one(g.to[a][rest[j]]) - one(g.to[rest[j]][a])
			}
			if best < present {
				order, moved = slices.Insert(rest, at, a), true
			}
		}
	}
	return order
}

// returns counts the arrows that lead a depth-first walk, from each file by name, back into a file
// that it has not left yet.
func (g *arrows) returns() (count int) {
	const fresh, open, left = 0, 1, 2
	state := make([]int, len(g.files))
	var visit func(int)
	visit = func(a int) {
		state[a] = open
		for b := range g.files {
			switch {
			case !g.to[a][b]:
			case state[b] == open:
				count++
			case state[b] == fresh:
				visit(b)
			}
		}
		state[a] = left
	}
	for a := range g.files {
		if state[a] == fresh {
			visit(a)
		}
	}
	return count
}

// knot is how many files the largest circle has: each of them uses each other, by whatever way; 0
// if there is none.
func (g *arrows) knot() (largest int) {
	reached := make([][]bool, len(g.files))
	for a := range g.files {
		reached[a] = make([]bool, len(g.files))
		for next := []int{a}; len(next) > 0; {
			from := next[len(next)-1]
			next = next[:len(next)-1]
			for b, uses := range g.to[from] {
				if uses && !reached[a][b] {
					reached[a][b] = true
					next = append(next, b)
				}
			}
		}
	}
	for a := range g.files {
		size := 0
		for b := range g.files {
			size += one(reached[a][b] && reached[b][a])
		}
		largest = max(largest, size)
	}
	return largest
}
