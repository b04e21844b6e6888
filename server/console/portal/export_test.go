package portal

// RowOf is a row of the pages, as tests go through them.
type RowOf struct{ Method, Path string }

// PerMinute is how many requests are taken for one customer.
const PerMinute = perMinute

// Rows lists all pages and forms, below a link.
func Rows() (all []RowOf) {
	for _, r := range rows {
		all = append(all, RowOf{r.method, r.path})
	}
	return all
}
