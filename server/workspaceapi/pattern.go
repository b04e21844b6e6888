package workspaceapi

// maxPattern is how many characters are looked for in one piece: the places between them are
// the bits of a word.
const maxPattern = 63

// pattern is a secret, or a piece of a long one, as it is looked for: at most maxPattern folded
// characters.
type pattern []rune

// patternsOf are the pieces of a secret, all about as long. One of at most maxPattern
// characters is one piece; of a longer one each piece, of 32 characters at least, is a secret.
func patternsOf(secret string) (pieces []pattern) {
	var letters pattern
	for at := 0; at < len(secret); {
		r, n := runeAt(secret, at)
		letters, at = append(letters, r), at+n
	}
	left := (len(letters) + maxPattern - 1) / maxPattern
	for ; left > 0; left-- {
		n := (len(letters) + left - 1) / left
		pieces, letters = append(pieces, letters[:n]), letters[n:]
	}
	return pieces
}

// reading is a text with all ways to read it.
type reading struct {
	signs []sign
	// letters number the characters that it can be read as.
	letters map[rune]int32
	// Of the pattern that is looked for: places has the bits of each letter's places in it; before,
	// by place of the text, those of how far it has come there, beginning anywhere; behind those from
	// which it goes on there to its end.
	places, before, behind []uint64
}

func readingOf(text string) *reading {
	r := &reading{letters: map[rune]int32{}}
	r.signs = signsOf(text, func(c rune) int32 {
		n, known := r.letters[c]
		if !known {
			n = int32(len(r.letters))
			r.letters[c] = n
		}
		return n
	})
	r.places = make([]uint64, len(r.letters))
	r.before, r.behind = make([]uint64, len(text)+1), make([]uint64, len(text)+1)
	return r
}

// mark adds 1 where a stretch of the text begins that is part of the pattern, and takes 1 away
// where it ends. Its time is that of the signs, whatever pattern and text are: all places at which
// the pattern may begin are followed at once.
func (r *reading) mark(hit []int32, p pattern) {
	clear(r.places)
	for i, c := range p {
		n, known := r.letters[c]
		if !known {
			return
		}
		r.places[n] |= 1 << i
	}
	clear(r.before)
	found, end := uint64(0), uint64(1)<<len(p)
	for i := range r.signs {
		s := &r.signs[i]
		if came := (r.before[s.at] | 1) & r.places[s.letter]; came != 0 {
			r.before[s.end] |= came << 1
			found |= came << 1
		}
		if s.between { // a key may be spelled with blanks, dashes or commas between its characters
			r.before[s.end] |= r.before[s.at] &^ (end | 1)
		}
	}
	if found&end == 0 {
		return
	}
	// Back from where the whole pattern was found.
	clear(r.behind)
	for i := len(r.signs) - 1; i >= 0; i-- {
		s := &r.signs[i]
		came := (r.before[s.at] | 1) & r.places[s.letter] & ((r.behind[s.end] | end) >> 1)
		if s.between {
			came |= r.before[s.at] & r.behind[s.end] &^ 1
		}
		if came != 0 {
			r.behind[s.at] |= came
			hit[s.at]++
			hit[s.end]--
		}
	}
}
