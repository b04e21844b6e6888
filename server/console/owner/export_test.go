package owner

// Row is a page or a form of the site, for tests that try each.
type Row struct{ Method, Path, Name string }

// Rows are all of them.
func (p *Pages) Rows() (rows []Row) {
	for _, r := range p.rows() {
		rows = append(rows, Row{r.method, Root + r.path, r.name})
	}
	for _, r := range p.approvalRoutes() {
		rows = append(rows, Row{r.Method, r.Path, r.Operation})
	}
	return rows
}

// WalkAtMost bounds the records that a page and a file look at.
func (p *Pages) WalkAtMost(page, file int) { p.walked, p.fileWalked = page, file }
