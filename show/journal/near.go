package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ceiling/internal/text"
)

// nearMost is the number of names suggested for an unknown one.
const nearMost = 5

// nearest returns the names most similar to the given one, best match first, among those that
// differ in at most half. If none is similar, it returns the first names of the list.
func nearest(name string, names []string) []string {
	type scored struct {
		name string
		far  int
	}
	var list []scored
	for _, n := range names {
		far := text.Distance(strings.ToLower(name), strings.ToLower(n))
		if strings.Contains(strings.ToLower(n), strings.ToLower(name)) {
			far = min(far, 1)
		}
		list = append(list, scored{n, far})
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.far, b.far) })
	var near []string
	for _, s := range list[:min(len(list), nearMost)] {
		if len(near) > 0 && s.far > max(len(name)/2, 1) {
			break
		}
		near = append(near, s.name)
	}
	if len(list) > 0 && list[0].far > max(len(name)/2, 1) {
		return names[:min(len(names), nearMost)]
	}
	return near
}

func keysOf[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }
