package page

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/decimal"
)

// functions are the templates' functions in addition to Go's own.
var functions = template.FuncMap{
	"amount": Amount, "money": Money, "bytes": Bytes, "cents": Cents, "dict": dict, "list": list, "mint": MintOnce, "segment": url.PathEscape,
	"clip": Clip, "short": short, "date": date, "second": second, "meter": Meter, "plot": Draw, "words": Words,
}

// Amount writes an exact number with its thousands apart: 1,234,567.5. Other text is left
// unchanged.
func Amount(number any) string {
	text := fmt.Sprint(number)
	sign, digits := "", text
	if strings.HasPrefix(text, "-") {
		sign, digits = "−", text[1:]
	}
	whole, rest := digits, ""
	if i := strings.IndexByte(digits, '.'); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	for i := range len(whole) {
		if whole[i] < '0' || whole[i] > '9' {
			return text
		}
	}
	var b strings.Builder
	b.WriteString(sign)
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(whole[i])
	}
	return b.String() + rest
}

// Money writes an amount with the places of its currency, and those beyond that it has: 51.20 USD.
func Money(number any, currency string) string {
	text := Amount(number)
	whole, rest, _ := strings.Cut(text, ".")
	places, _ := decimal.MinorUnits(currency)
	if missing := places - len(rest); missing > 0 && whole != "" {
		text = whole + "." + rest + strings.Repeat("0", missing)
	}
	return text + " " + currency
}

// Cents writes an amount of US cents for people.
func Cents(cents any) string {
	var n int64
	switch c := cents.(type) {
	case uint32:
		n = int64(c)
	case int64:
		n = c
	case int:
		n = int64(c)
	}
	whole, rest := n/100, strconv.FormatInt(n%100+100, 10)[1:]
	return "$" + Amount(whole) + "." + rest
}

// Clip is a text of so many characters at most: the beginning of a longer one, and its end.
func Clip(maximum int, text string) string {
	if len(text) <= maximum {
		return text
	}
	all := []rune(text)
	if len(all) <= maximum {
		return text
	}
	end := maximum / 3
	return string(all[:maximum-end-1]) + "…" + string(all[len(all)-end:])
}

// Percent writes a share of 1 in percents: 87.5 %.
func Percent(share float64) string {
	return Amount(strings.TrimSuffix(coordinate(100*share), ".0")) + " %"
}

// Bytes writes a size in the unit that suits it.
func Bytes(size any) (string, error) {
	var n float64
	switch v := size.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = v
	default:
		return "", fmt.Errorf("page: %T is not a size", size)
	}
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	unit := 0
	for n >= 1024 && unit < len(units)-1 {
		n /= 1024
		unit++
	}
	if unit == 0 || n >= 100 {
		return fmt.Sprintf("%.0f %s", n, units[unit]), nil
	}
	return fmt.Sprintf("%.1f %s", n, units[unit]), nil
}

// MintOnce makes the key of one form: random, so that no two forms have the same.
func MintOnce() string {
	var b [18]byte
	rand.Read(b[:]) // never fails
	return "form-" + base64.RawURLEncoding.EncodeToString(b[:])
}

// instant writes a time, or an RFC 3339 text, for people and for machines: without its year within
// the present one, and without seconds, which its title has. Other text is left unchanged; the zero
// time is empty.
func (s *Site) instant(value any) template.HTML {
	return timeAs(value, func(at time.Time) string {
		day := "2 Jan"
		if at.Year() != s.config.Now().UTC().Year() {
			day = "2 Jan 2006"
		}
		return at.Format(day + `, <span class="clock">15:04</span>`)
	})
}

// second is the time of day alone, to the second.
func second(value any) template.HTML {
	return timeAs(value, func(at time.Time) string { return at.Format(time.TimeOnly) })
}

// date is instant without the time of day, which its title has.
func date(value any) template.HTML { return timeAs(value, Day) }

// Day writes the day of an instant within a sentence: 22 Nov 2026.
func Day(at time.Time) string { return at.UTC().Format("2 Jan 2006") }

// When is Day with the time of day: 22 Nov 2026, 21:10.
func When(at time.Time) string { return at.UTC().Format("2 Jan 2006, 15:04") }

// Outdated is the notice of a page that was made from a node's own memory, which is so old.
func Outdated(now time.Time, age time.Duration) *Notice {
	n := &Notice{
		Tone: Problem, Title: "The age of this page is not known",
		Detail: "Nothing can be changed now: no majority of the cluster can be reached. Load the page " +
			"again in a moment.",
	}
	at := now.UTC().Add(-age)
	switch {
	case age < time.Minute:
		n.Title = fmt.Sprintf("As of %s, %d s old", at.Format(time.TimeOnly), age/time.Second)
	case age < time.Hour:
		n.Title = fmt.Sprintf("As of %s, %d min old", at.Format(time.TimeOnly), age/time.Minute)
	case age < 10*365*24*time.Hour: // else the node has applied nothing since it began
		n.Title = "As of " + When(at)
	}
	return n
}

func timeAs(value any, layout func(time.Time) string) template.HTML {
	at, is := value.(time.Time)
	if text := fmt.Sprint(value); !is {
		var err error
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return template.HTML(template.HTMLEscapeString(text))
		}
	}
	if at.IsZero() {
		return ""
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `" title="` +
		at.Format("2006-01-02 15:04:05 UTC") + `">` + layout(at) + `</time>`)
}

// short is the head of a long id, for a table; its title has the whole.
func short(id string) string {
	if len(id) <= 13 {
		return id
	}
	return id[:8] + "…" + id[len(id)-4:]
}

// plain are the words for names of the API whose own words say too little.
var plain = map[string]string{"IN_ADVANCE_INITIAL": "first invoice, paid in advance"}

// Words writes a name of the API for people: PAST_DUE becomes "past due".
func Words(name string) string {
	if words, known := plain[name]; known {
		return words
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", " "))
}

// list puts values together, for a template that takes several in turn.
func list(values ...any) []any { return values }

var errPairs = errors.New("page: dict takes names and values in turn")

// dict puts names and values together, for a template that takes several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errPairs
	}
	made := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, errPairs
		}
		made[name] = pairs[i+1]
	}
	return made, nil
}
