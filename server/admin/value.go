package admin

import (
	"strconv"

	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/scan"
)

// The readers below read values of a document; what is wrong becomes a problem with its place.

func (w *walk) text(dst *string) reader {
	return func(t *tree, place string) {
		if t.kind != scan.KindString {
			w.wrong(true, place, form.WrongType("a string", t.kind))
			return
		}
		*dst = t.text
	}
}

// decimal reads an exact number, written as a number or as a string.
func (w *walk) decimal(dst *decimal.Decimal) reader {
	return func(t *tree, place string) {
		if t.kind != scan.KindString && t.kind != scan.KindNumber {
			w.wrong(true, place, form.WrongType("a number, or one in a string", t.kind))
			return
		}
		value, err := decimal.ParseLoose(t.text)
		if err != nil {
			w.wrong(true, place, form.Inexact)
			return
		}
		*dst = value
	}
}

// integer is a whole number, however it is written.
func (t *tree) integer() (value int64, ok bool) {
	if t.kind != scan.KindString && t.kind != scan.KindNumber {
		return 0, false
	}
	value, err := strconv.ParseInt(t.text, 10, 64)
	return value, err == nil
}

func (w *walk) whole(dst *uint32) reader {
	return func(t *tree, place string) {
		value, err := strconv.ParseUint(t.text, 10, 32)
		if err != nil || (t.kind != scan.KindString && t.kind != scan.KindNumber) {
			w.problem(place, server.FieldType, "must be a whole number")
			return
		}
		*dst = uint32(value)
	}
}

// percents reads an array of whole numbers of 1 to 100.
func (w *walk) percents(dst *[]byte) reader {
	return w.array(func(t *tree, place string) {
		value, ok := t.integer()
		if !ok || value < 1 || value > 100 {
			w.wrong(true, place, form.Outside(1, 100))
			return
		}
		*dst = append(*dst, byte(value))
	})
}

// plain reads a string of minimum to maximum characters, none of them a control character.
func (w *walk) plain(dst *string, minimum, maximum int) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.text(dst)(t, place)
		wrong, ok := form.CheckText(*dst, minimum, maximum)
		w.wrong(len(w.problems) == before && !ok, place, wrong)
	}
}

func (w *walk) word(dst *string, words ...string) reader {
	return func(t *tree, place string) {
		if t.kind == scan.KindString {
			for _, word := range words {
				if t.text == word {
					*dst = word
					return
				}
			}
		}
		w.wrong(true, place, form.NotAllowed(words...))
	}
}

func (w *walk) currency(dst *string) reader {
	return func(t *tree, place string) {
		if _, known := decimal.MinorUnits(t.text); t.kind != scan.KindString || !known {
			w.wrong(true, place, form.NotCurrency)
			return
		}
		*dst = t.text
	}
}

func (w *walk) flag(dst *bool) reader {
	return func(t *tree, place string) {
		w.wrong(t.kind != scan.KindTrue && t.kind != scan.KindFalse, place,
			form.WrongType("a boolean", t.kind))
		*dst = t.kind == scan.KindTrue
	}
}

// integer reads a whole number from -maximum to maximum.
func (w *walk) integer(dst *int64, maximum int64) reader {
	return func(t *tree, place string) {
		value, ok := t.integer()
		if !ok || value < -maximum || value > maximum {
			w.wrong(true, place, form.Outside(-maximum, maximum))
			return
		}
		*dst = value
	}
}

// amount reads an exact number that is not negative.
func (w *walk) amount(dst *decimal.Decimal) reader {
	return func(t *tree, place string) {
		w.decimal(dst)(t, place)
		w.wrong(dst.Sign() < 0, place, form.Negative)
	}
}

// metadata reads a free-form object, which is stored compact.
func (w *walk) metadata(dst *[]byte) reader {
	return func(t *tree, place string) {
		if t.kind != scan.KindObject {
			w.wrong(true, place, form.WrongType("an object", t.kind))
			return
		}
		*dst = w.appendCompact(nil, t, place)
		w.wrong(len(*dst) > form.MaxObject, place, form.LongObject)
	}
}

// positive reads an amount of credits.
func (w *walk) positive(dst *decimal.Decimal) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.decimal(dst)(t, place)
		w.wrong(len(w.problems) == before && dst.Sign() <= 0, place, form.NotPositive)
	}
}

// instant reads an RFC 3339 time.
func (w *walk) instant(dst *int64) reader {
	return func(t *tree, place string) {
		var text string
		before := len(w.problems)
		w.text(&text)(t, place)
		if len(w.problems) > before {
			return
		}
		ms, ok := server.ParseInstant([]byte(text))
		w.wrong(!ok, place, form.NotTime)
		*dst = ms
	}
}
