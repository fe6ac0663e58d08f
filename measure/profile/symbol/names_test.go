package symbol

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestNamesAreKept: the second time answers what the first did, and reads
// neither the program nor the kernel's symbols again; a program that was built
// again is another one.
func TestNamesAreKept(t *testing.T) {
	s, err := OpenSpace(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var n Names
	defer n.Close()
	list := []Address{{s, here()}, {nil, kernelAddress(t)}}
	first, missing := n.Resolve(list)
	if len(missing) > 0 || first[list[0]].Name == "" || first[list[1]].Name == "" {
		t.Fatalf("%v, missing %v", first, missing)
	}
	if len(n.programs) != 1 || n.bytes == 0 || n.kernel == nil {
		t.Fatalf("kept %d programs of %d bytes, the kernel's symbols: %v", len(n.programs), n.bytes, n.kernel != nil)
	}
	kernel, kept, bytes := n.kernel, maps.Clone(n.programs), n.bytes
	second, _ := n.Resolve(list)
	if !maps.Equal(first, second) {
		t.Errorf("first %v, then %v", first, second)
	}
	if n.kernel != kernel || !maps.Equal(n.programs, kept) || n.bytes != bytes {
		t.Error("the tables were read again")
	}

	name := t.TempDir() + "/program"
	var ids []programID
	for _, text := range []string{"one", "another"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		id, err := idOf(f)
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] == ids[1] {
		t.Error("a program that was built again is taken for the old one")
	}
}

// kernelAddress is one in a function that every kernel has.
func kernelAddress(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	var at uint64
	_, rest, _ := strings.Cut(string(text), "\n")
	for line := range strings.Lines(rest) {
		if strings.HasSuffix(line, " T schedule\n") {
			if _, err := fmt.Sscanf(line, "%x", &at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if at == 0 {
		t.Fatal("no address of schedule: run this test as root")
	}
	return at + 1
}

// TestKernelTable holds its answers against those of nearest, which sees every
// line for every address.
func TestKernelTable(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		var text strings.Builder
		var addrs []uint64
		for i := range 1 + r.IntN(20) {
			start := 0xffffffff81000000 + uint64(r.IntN(64))*uint64(1+r.IntN(functionMax/16))
			kind := []string{"T", "t", "W", "D"}[r.IntN(4)]
			fmt.Fprintf(&text, "%x %s f%d", start, kind, i)
			if r.IntN(4) == 0 {
				text.WriteString("\t[module]")
			}
			text.WriteString("\n")
			addrs = append(addrs, start, start+1, start-1, start+functionMax, start+functionMax-1)
		}
		table, err := readKallsyms(strings.NewReader(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			n := newNearest([]uint64{a})
			for i := range table.functions {
				f := &table.functions[i]
				if at, ok := n.wants(f.start, 0); ok {
					n.keep(at, f.start, 0, table.text[f.from:f.to])
				}
			}
			if want := n.names()[a]; table.name(a) != want {
				t.Fatalf("round %d: %x is %q, nearest says %q of\n%s", round, a, table.name(a), want, text.String())
			}
		}
	}
}
