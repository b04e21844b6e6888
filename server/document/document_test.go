package document_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/document"
)

func invoice(lines int) *document.Invoice {
	v := &document.Invoice{
		Title: "Invoice 12", Stamp: "PAST DUE", Currency: "USD",
		From: document.Party{Name: "Demo Ltd", Lines: []string{"1 Main St", "Oslo", "NO 1"}},
		To: document.Party{
			Name: "Łukasz Žižek, 東京", Lines: []string{strings.Repeat("Long address ", 12), "a@b.example"},
		},
		Facts: []document.Fact{{"Issued", "22 Jan 2027"}, {"Due", "29 Jan 2027"}},
		Sums: []document.Fact{
			{"Subtotal", "20.06 USD"}, {"Total", "1,000,000,000,000,000,000,000,000.00 USD"},
		},
		Notes: []string{"Thank you."}, Made: time.UnixMilli(1_800_000_000_000),
	}
	for i := range lines {
		v.Lines = append(v.Lines, document.Line{
			What:   fmt.Sprintf("Line %d, %s", i, strings.Repeat("output tokens of a model ", i%5)),
			Period: "22 Dec 2026 – 22 Jan 2027", Quantity: "123,456,789.000001", Price: "0.000003",
			Amount: "370.37",
		})
		for part := range i % 4 {
			v.Lines[i].Parts = append(v.Lines[i].Parts, document.Part{
				What: fmt.Sprint("up to ", part), Quantity: "1,000", Price: "0.01", Amount: "10.00",
			})
		}
	}
	return v
}

// TestNothingOverlaps: of documents of one line and of many, every text is on its page and within
// its box, and no two boxes of a page overlap.
func TestNothingOverlaps(t *testing.T) {
	for _, lines := range []int{0, 1, 7, 300} {
		v := invoice(lines)
		if lines == 7 {
			v.Lines[3].What = strings.Repeat("a word of many ", 200) // more than a page
		}
		file, boxes, err := document.PDF(v)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(file, []byte("%PDF-")))
		again, _, err := document.PDF(v)
		require.NoError(t, err)
		require.Equal(t, file, again, "the same invoice has the same bytes")
		if lines == 1 {
			require.Less(t, len(file), 60<<10)
		}
		all, seen := "", 0
		for i, b := range boxes {
			require.LessOrEqual(t, b.Text, b.W+.01, b.Says)
			require.GreaterOrEqual(t, b.X, 20.0, b.Says)
			require.LessOrEqual(t, b.X+b.W, 190.01, b.Says)
			require.GreaterOrEqual(t, b.Y, 15.0, b.Says)
			require.LessOrEqual(t, b.Y+b.H, 290.0, b.Says)
			for _, o := range boxes[:i] {
				apart := o.Page != b.Page || o.X+o.W <= b.X || b.X+b.W <= o.X ||
					o.Y+o.H <= b.Y+.01 || b.Y+b.H <= o.Y+.01
				require.True(t, apart, "%q and %q", o, b)
			}
			all += b.Says + "\n"
			seen += strings.Count(b.Says, "370.37")
		}
		require.Equal(t, lines, seen)
		for _, text := range []string{
			"Invoice 12", "PAST DUE", "Łukasz Žižek, □□", "1,000,000,000,000,000,000,000,000.00 USD",
			"□ stands for a character", "Thank you.", "Amount, USD", "a@b.example",
		} {
			require.Contains(t, all, text)
		}
	}
}

// TestHostileTexts: control characters, characters beyond the fonts' and empty texts draw.
func TestHostileTexts(t *testing.T) {
	v := invoice(2)
	v.Title, v.Lines[0].What, v.Lines[1].What = "(\\)\n%PDF", "😀\u0000\u202e\u00a0x", ""
	v.To = document.Party{Name: strings.Repeat("x", 500)}
	_, boxes, err := document.PDF(v)
	require.NoError(t, err)
	all := ""
	for _, b := range boxes {
		all += b.Says + "\n"
	}
	require.Contains(t, all, "□ □ x")
}
