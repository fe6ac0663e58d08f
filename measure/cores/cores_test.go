package cores

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"ceiling/experiment/spec"
)

// host is a machine's /sys by the lists of its cores and nodes.
func host(cores, nodes []string) Layout {
	root := fstest.MapFS{
		// What lies beside them and is no CPU.
		"sys/devices/system/cpu/cpufreq/boost": {Data: []byte("1\n")},
		"sys/devices/system/node/online":       {Data: []byte("0\n")},
	}
	for _, core := range cores {
		cpus, err := spec.ParseCPUList(core)
		if err != nil {
			panic(err)
		}
		for _, cpu := range cpus {
			root[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = &fstest.MapFile{Data: []byte(core + "\n")}
		}
	}
	for i, node := range nodes {
		root[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = &fstest.MapFile{Data: []byte(node + "\n")}
	}
	return LayoutOf(root)
}

func cpus(t *testing.T, list string) []int {
	t.Helper()
	found, err := spec.ParseCPUList(list)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// big is a server of two sockets with 32 cores each and two threads a core, as
// Linux numbers them: the second threads come after all first ones.
func big() Layout {
	var cores []string
	for i := range 64 {
		cores = append(cores, fmt.Sprintf("%d,%d", i, i+64))
	}
	return host(cores, []string{"0-31,64-95", "32-63,96-127"})
}

// alternating is the same with the sockets' CPUs taking turns, as some firmware
// numbers them.
func alternating() Layout {
	var cores []string
	var nodes [2][]string
	for i := range 64 {
		cores = append(cores, fmt.Sprintf("%d,%d", i, i+64))
		nodes[i%2] = append(nodes[i%2], fmt.Sprint(i), fmt.Sprint(i+64))
	}
	return host(cores, []string{strings.Join(nodes[0], ","), strings.Join(nodes[1], ",")})
}

func TestReadLayout(t *testing.T) {
	l := host([]string{"1,3", "0,2"}, []string{"0-3", ""})
	if fmt.Sprint(l.Cores) != "[[0 2] [1 3]]" || fmt.Sprint(l.Nodes) != "[[0 1 2 3]]" {
		t.Errorf("%+v", l)
	}
	if l := LayoutOf(fstest.MapFS{"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": {Data: []byte("x")}}); l.Cores != nil ||
		l.Nodes != nil {
		t.Errorf("%+v", l)
	}
	if l := ReadLayout(); len(l.Cores) == 0 {
		t.Logf("this kernel does not tell its cores: %+v", l)
	}
}

// TestApart: who gets which CPUs, machine by machine. may and server are the
// CPUs that the sides may use; server "" is the same as may.
func TestApart(t *testing.T) {
	two, four := host([]string{"0", "1"}, []string{"0-1"}), host([]string{"0-1", "2-3"}, []string{"0-3"})
	eight := host([]string{"0,4", "1,5", "2,6", "3,7"}, nil)
	for _, c := range []struct {
		name, may, server string
		s                 Sides
		want, fail        string
	}{
		{"one CPU", "0", "", Sides{Layout: host([]string{"0"}, nil)}, "", "one CPU together"},
		{"two", "0-1", "", Sides{Layout: two, Want: 1}, "generator on CPU 0, server on CPU 1", ""},
		{"two, much to do", "0-1", "", Sides{Layout: two, Want: 64}, "generator on CPU 0, server on CPU 1", ""},
		{"two threads of one core", "0-1", "", Sides{Layout: host([]string{"0-1"}, nil), Want: 1},
			"generator on CPU 0, server on CPU 1 (two threads", ""},
		{"four with SMT", "0-3", "", Sides{Layout: four, Want: 1}, "generator on CPUs 0-1, server on CPUs 2-3", ""},
		{"four with SMT, one bound away", "1-3", "", Sides{Layout: four, Want: 2}, "generator on CPU 1, server on CPUs 2-3", ""},
		{"eight, little to do", "0-7", "", Sides{Layout: eight, Want: 2}, "generator on CPUs 0,4, server on CPUs 1-3,5-7", ""},
		{"eight, more", "0-7", "", Sides{Layout: eight, Want: 3}, "generator on CPUs 0-1,4-5, server on CPUs 2-3,6-7", ""},
		{"eight, no layout", "0-7", "", Sides{Want: 64}, "generator on CPUs 0-3, server on CPUs 4-7", ""},
		{"half a layout", "0-3", "", Sides{Layout: Layout{Cores: [][]int{{0, 1}}}, Want: 1}, "generator on CPUs 0-1, server on CPUs 2-3", ""},
		{"128, 64 connections", "0-127", "", Sides{Layout: big(), Want: 2}, "generator on CPUs 0,64, server on CPUs 1-63,65-127", ""},
		{"128, much to do", "0-127", "", Sides{Layout: big(), Want: 1000}, "generator on CPUs 0-31,64-95, server on CPUs 32-63,96-127", ""},
		{"128, nodes in turns", "0-127", "", Sides{Layout: alternating(), Want: 4},
			"generator on CPUs 0,2,64,66, server on CPUs 1,3-63,65,67-127", ""},
		{"128, bound to one node", "32-63", "", Sides{Layout: big(), Want: 2}, "generator on CPUs 32-33, server on CPUs 34-63", ""},
		{"bound to two far apart", "7,71,100", "", Sides{Layout: big(), Want: 1}, "generator on CPUs 7,71, server on CPU 100", ""},
		{"a quota of four on 128", "0-127", "", Sides{Layout: big(), Want: 1, Quota: 4}, "generator on CPU 0, server on CPUs 1-3", ""},
		{"a quota of four, much to do", "0-127", "", Sides{Layout: big(), Want: 9, Quota: 4.5}, "generator on CPUs 0-1, server on CPUs 2-3", ""},
		{"a quota of three on four", "0-3", "", Sides{Layout: four, Want: 1, Quota: 3}, "generator on CPUs 0-1, server on CPUs 2-3", ""},
		{"a quota of two", "0-1", "", Sides{Layout: two, Want: 1, Quota: 2}, "generator on CPU 0, server on CPU 1", ""},
		{"a quota of one and a half", "0-3", "", Sides{Layout: four, Want: 1, Quota: 1.5}, "", "grants both together 1.5 CPUs"},
		{"a quota of more than there is", "0-1", "", Sides{Layout: two, Want: 1, Quota: 8}, "generator on CPU 0, server on CPU 1", ""},
		{"apart already", "0", "1-2", Sides{}, "generator on CPU 0, server on CPUs 1-2", ""},
		{"server bound to some", "0-7", "0-1", Sides{Layout: eight, Want: 1}, "generator on CPUs 2-3,6-7, server on CPUs 0-1", ""},
		{"server bound to a thread of every core", "0-7", "0-3", Sides{Layout: eight, Want: 1},
			"generator on CPUs 4-7, server on CPUs 0-3 (two threads", ""},
		{"generator bound to some", "6-7", "0-7", Sides{Want: 1}, "generator on CPUs 6-7, server on CPUs 0-5", ""},
		{"generator pinned", "3", "0-7", Sides{GeneratorPinned: true, Layout: eight}, "generator on CPU 3, server on CPUs 0-2,4-6", ""},
		{"server pinned", "0-7", "3", Sides{ServerPinned: true, Want: 1}, "generator on CPUs 0-2,4-7, server on CPU 3", ""},
		{"both pinned to one", "0", "0", Sides{GeneratorPinned: true, ServerPinned: true}, "", "--pin-server"},
		{"server pinned to all", "0-7", "", Sides{ServerPinned: true}, "", "leave some"},
	} {
		c.s.Generator = cpus(t, c.may)
		if c.s.Server = c.s.Generator; c.server != "" {
			c.s.Server = cpus(t, c.server)
		}
		got, err := c.s.Apart()
		switch {
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%s: %v, want %q", c.name, err, c.fail)
		case c.fail == "" && (err != nil || !strings.HasPrefix(got.String(), c.want) ||
			strings.Contains(got.String(), "two threads") != strings.Contains(c.want, "two threads")):
			t.Errorf("%s: %s (%v)\nwant %s", c.name, got, err, c.want)
		}
	}
}

func TestApartIsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 1, 16, rapid.ID)
		some := func(name string) []int {
			list := any.Draw(t, name)
			slices.Sort(list)
			return list
		}
		var l Layout
		for i := range rapid.IntRange(0, 8).Draw(t, "cores") {
			l.Cores = append(l.Cores, []int{i, i + 8})
		}
		s := Sides{Generator: some("generator"), Server: some("server"), Want: rapid.IntRange(1, 20).Draw(t, "want"), Layout: l,
			GeneratorPinned: rapid.Bool().Draw(t, "generator pinned"), ServerPinned: rapid.Bool().Draw(t, "server pinned"),
			Quota: rapid.Float64Range(0, 20).Draw(t, "quota")}
		if rapid.Bool().Draw(t, "alike") {
			s.Server = s.Generator
		}
		p, err := s.Apart()
		if err != nil {
			return
		}
		g, v := p.Generator, p.Server
		if len(g) == 0 || len(v) == 0 || len(Both(g, v)) > 0 || len(without(g, s.Generator)) > 0 || len(without(v, s.Server)) > 0 ||
			!slices.IsSorted(g) || !slices.IsSorted(v) {
			t.Fatalf("%+v: %v and %v", s, g, v)
		}
	})
}

func TestFormatIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 1, 30, rapid.ID).Draw(t, "cpus")
		slices.Sort(list)
		if got, err := spec.ParseCPUList(Format(list)); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v is written %s and read %v (%v)", list, Format(list), got, err)
		}
	})
}
