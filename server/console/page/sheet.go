package page

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tollgate/server"
)

// MaxSheetRows bounds the rows of a file.
const MaxSheetRows = 10_000

// Sheet is a list as a file for a spreadsheet.
type Sheet struct {
	rows [][]string // the first names the columns
	// More reports whether rows had no room, Short whether not all of the list was read.
	More, Short bool
}

// NewSheet makes a sheet with no row but that of its columns' names.
func NewSheet(columns ...string) *Sheet { return &Sheet{rows: [][]string{columns}} }

// Add adds a row where there is room: texts so that none is a formula, times as the APIs write
// them.
func (s *Sheet) Add(cells ...any) {
	if s.Full() {
		s.More = true
		return
	}
	row := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case string:
			row[i] = cell(c)
		case time.Time:
			if !c.IsZero() {
				row[i] = string(server.AppendTime(nil, c.UnixMilli()))
			}
		default: // numbers of answers are texts, too
			row[i] = fmt.Sprint(c)
		}
	}
	s.rows = append(s.rows, row)
}

// Full reports whether the sheet has room for no more rows.
func (s *Sheet) Full() bool { return len(s.rows) > MaxSheetRows }

// Rows are the sheet's, that of its columns' names first.
func (s *Sheet) Rows() [][]string { return s.rows }

// Missing says so where rows are left out; else it is empty.
func (s *Sheet) Missing() string {
	switch {
	case s.More:
		return "Rows are missing: a file has up to " + strconv.Itoa(MaxSheetRows) +
			" rows. Choose less of the list."
	case s.Short:
		return "Rows may be missing: not all of the list was searched. Choose less of it."
	}
	return ""
}

// cell is a text that a spreadsheet does not take for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Download answers with a sheet as a file, NAME.csv. Its last row says so where rows are left out.
func (s *Site) Download(x *server.Exchange, name string, of *Sheet) {
	if missing := of.Missing(); missing != "" {
		of.rows = append(of.rows, []string{missing})
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(of.rows); err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	s.Guard(x)
	x.Ctx.Response.Header.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	x.Bare(200, "text/csv; charset=utf-8", text.Bytes())
}
