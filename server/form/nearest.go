package form

import "strings"

// nearest is the one of the known names that an unknown one most likely stands for: another
// spelling, two letters away at most, or the first one that begins or ends with it. Empty is none.
func nearest(name string, known []string) (found string) {
	name = spelled(name)
	best := 3
	for _, k := range known {
		if d := distance(name, spelled(k), best); d < best && d <= len(k)/2 {
			best, found = d, k
		}
	}
	if found != "" || len(name) < 2 {
		return found
	}

	for _, k := range known {
		if s := spelled(k); strings.HasPrefix(s, name) || strings.HasSuffix(s, name) {
			return k
		}
	}
	return ""
}

// spelled is a name without what spellings differ by: first_name, FirstName.
func spelled(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// distance is how many bytes are to be added, removed or replaced to make one name of another;
// maximum where there are as many or more.
func distance(a, b string, maximum int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= maximum {
		return maximum
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			if a[i] != b[j] {
				left++
			}
			left, row[j+1] = above, min(left, above+1, row[j]+1)
		}
	}
	return min(row[len(b)], maximum)
}
