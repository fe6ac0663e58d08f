package take

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ceiling/spec"
)

func TestApart(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	pairs := [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}
	for _, c := range []struct {
		name              string
		s                 sides
		generator, server string
		says, fail        string
	}{
		{"apart already", sides{generator: []int{0}, server: []int{1, 2}}, "0", "1-2", "", ""},
		{"two CPUs", sides{generator: []int{0, 1}, server: []int{0, 1}, want: 4}, "0", "1", "pinned apart", ""},
		{"a generator with little to do", sides{generator: all, server: all, want: 1}, "0", "1-7", "generator to 0", ""},
		{"a generator with much to do", sides{generator: all, server: all, want: 64}, "0-3", "4-7", "", ""},
		{"whole cores", sides{generator: all, server: all, cores: pairs, want: 3}, "0-1,4-5", "2-3,6-7", "", ""},
		{"one core", sides{generator: []int{0, 1}, server: []int{0, 1}, cores: [][]int{{0, 1}}, want: 1}, "0", "1", "two threads of one core", ""},
		{"server on some", sides{generator: all, server: []int{0, 1}, want: 1}, "2-7", "0-1", "", ""},
		{"generator on some", sides{generator: []int{6, 7}, server: all, want: 1}, "6-7", "0-5", "", ""},
		{"generator pinned", sides{generator: []int{3}, server: all, generatorPinned: true, want: 1}, "3", "0-2,4-7", "", ""},
		{"server pinned", sides{generator: all, server: []int{3}, serverPinned: true, want: 1}, "0-2,4-7", "3", "", ""},
		{"one CPU", sides{generator: []int{0}, server: []int{0}, want: 1}, "", "", "", "one CPU together"},
		{"both pinned to one", sides{generator: []int{0}, server: []int{0}, generatorPinned: true, serverPinned: true}, "", "", "", "--pin-server"},
		{"server pinned to all", sides{generator: all, server: all, serverPinned: true}, "", "", "", "leave some"},
	} {
		g, s, says, err := c.s.apart()
		if c.fail != "" {
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: %v, want %q", c.name, err, c.fail)
			}
			continue
		}
		if err != nil || list(g) != c.generator || list(s) != c.server || !strings.Contains(says, c.says) {
			t.Errorf("%s: %s and %s, %q (%v)", c.name, list(g), list(s), says, err)
		}
	}
}

func TestApartIsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 1, 16, rapid.ID)
		some := func(name string) []int {
			list := cpus.Draw(t, name)
			slices.Sort(list)
			return list
		}
		s := sides{generator: some("generator"), server: some("server"), want: rapid.IntRange(1, 20).Draw(t, "want"),
			generatorPinned: rapid.Bool().Draw(t, "generator pinned"), serverPinned: rapid.Bool().Draw(t, "server pinned")}
		g, v, _, err := s.apart()
		if err != nil {
			return
		}
		if len(g) == 0 || len(v) == 0 || len(both(g, v)) > 0 || len(without(g, s.generator)) > 0 || len(without(v, s.server)) > 0 {
			t.Fatalf("%+v: %v and %v", s, g, v)
		}
	})
}

func TestListIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 1, 30, rapid.ID).Draw(t, "cpus")
		slices.Sort(cpus)
		if got, err := spec.ParseCPUList(list(cpus)); err != nil || !slices.Equal(got, cpus) {
			t.Fatalf("%v is written %s and read %v (%v)", cpus, list(cpus), got, err)
		}
	})
}
