package journal

import (
	"cmp"
	"slices"
	"strings"

	"ceiling/internal/text"
)

// nearMost is the number of names suggested for an unknown one.
const nearMost = 5

// nearTo suggests the names most similar to an unknown one, best match first, among those that
// differ in at most half. If none is similar, it suggests the first names of the list.
func nearTo(name string, names []string) string {
	far := func(n string) int {
		if strings.Contains(strings.ToLower(n), strings.ToLower(name)) {
			return min(1, len(n)-len(name))
		}
		return text.Distance(strings.ToLower(name), strings.ToLower(n))
	}
	near := slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	switch similar := slices.IndexFunc(near, func(n string) bool { return far(n) > max(len(name)/2, 1) }); {
	case similar == 0:
		near = names
	case similar > 0:
		near = near[:similar]
	}
	if len(near) == 0 {
		return ""
	}
	return "; near: " + strings.Join(near[:min(len(near), nearMost)], ", ")
}
