package extract

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/page"
)

// maxLimits is how many limits of one kind are listed.
const maxLimits = 20

// once is a list of limits with each that is said several times as one, which says how often; of
// one kind not more than are listed.
func once(list []document.Limit) (merged []document.Limit) {
	times := map[document.Limit]int{}
	for _, l := range list {
		times[l]++
	}
	kinds, left := map[string]int{}, map[string]int{}
	for _, l := range list {
		n := times[l]
		if n == 0 {
			continue
		}
		times[l] = 0
		if kinds[l.Code]++; kinds[l.Code] > maxLimits {
			left[l.Code] += n
			continue
		}
		if n > 1 {
			l.Reason = fmt.Sprintf("%s (%d times)", l.Reason, n)
		}
		merged = append(merged, l)
	}
	for _, code := range slices.Sorted(maps.Keys(left)) {
		merged = append(merged, document.Limit{
			Code:   code,
			Reason: fmt.Sprintf("The same holds %d more times, which are not listed.", left[code]),
		})
	}
	return merged
}

// limits says what was collected and not read.
func (r *reader) limits() {
	list := slices.Clone(r.f.Limits)
	add := func(code, reason string) {
		list = append(list, document.Limit{Code: code, Reason: reason})
	}
	if r.unread > 0 {
		add("text_size", fmt.Sprintf(
			"%d texts were not searched to their end: %d KiB of each are.", r.unread, page.MaxWords>>10))
	}
	if len(r.late) > 0 {
		add("reading_time", fmt.Sprintf(
			"%d answers were not read, or not all of them: the time for reading was over.", len(r.late)))
	}
	for _, broken := range r.f.BrokenAPIs {
		add("description_unread", fmt.Sprintf("The API description of %s was not read: %s.",
			broken.Obs, broken.Why))
	}
	for _, u := range r.f.Unread {
		if u.Role == collect.RoleOpenAPI && (u.Named || u.Present) {
			add("description_unread", fmt.Sprintf(
				"An API description that %s is or names was not read: %s.", u.Obs, u.Why))
		}
	}
	for _, api := range r.f.APIs {
		if len(api.Incomplete) > 0 {
			add("description_part", fmt.Sprintf(
				"Of the API description of %s not every operation was read: %s.",
				api.Obs, strings.Join(api.Incomplete, "; ")))
		}
		if len(api.LeftOut) > 0 {
			add("description_lists", fmt.Sprintf(
				"Of the API description of %s lists were not read to their end: %s.",
				api.Obs, strings.Join(api.LeftOut, "; ")))
		}
	}
	r.f.Limits = once(list)
}
