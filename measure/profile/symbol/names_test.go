//go:build linux

package symbol

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// TestNamesAreKept: the second time answers what the first did, and reads
// neither the program nor the kernel's symbols again; a program that was built
// again is another one.
func TestNamesAreKept(t *testing.T) {
	needs.Root(t)
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
	if len(n.programs) != 1 || n.bytes == 0 {
		t.Fatalf("kept %d programs of %d bytes", len(n.programs), n.bytes)
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

// TestReadKallsyms holds its answers against a search through all lines for every
// address.
func TestReadKallsyms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		var text strings.Builder
		var addrs []uint64
		type function struct {
			start uint64
			name  string
		}
		var functions []function
		for i := range 1 + r.IntN(20) {
			start := 0xffffffff81000000 + uint64(r.IntN(64))*uint64(1+r.IntN(functionMax/16))
			kind := []string{"T", "t", "W", "D"}[r.IntN(4)]
			fmt.Fprintf(&text, "%x %s f%d", start, kind, i)
			if r.IntN(4) == 0 {
				text.WriteString("\t[module]")
			}
			text.WriteString("\n")
			if kind != "D" {
				functions = append(functions, function{start, fmt.Sprintf("f%d", i)})
			}
			addrs = append(addrs, start, start+1, start-1, start+functionMax, start+functionMax-1)
		}
		found, err := readKallsyms(strings.NewReader(text.String()), addrs)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			var best function
			for _, f := range functions {
				if f.start <= a && a-f.start < functionMax && f.start > best.start {
					best = f
				}
			}
			if found[a] != best.name {
				t.Fatalf("round %d: %x is %q, want %q of\n%s", round, a, found[a], best.name, text.String())
			}
		}
	}
}

// TestKernelNames holds what the kernel answers against what it lists.
func TestKernelNames(t *testing.T) {
	needs.Root(t)
	k, err := openKernelNames()
	if err != nil {
		t.Fatalf("%v: run this test as root", err)
	}
	defer k.close()
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []uint64
	r := rand.New(rand.NewPCG(5, 6))
	for line := range strings.Lines(string(text)) {
		var start uint64
		var kind, name string
		// Of the kernel itself: modules and BPF programs come and go.
		if n, _ := fmt.Sscanf(line, "%x %s %s", &start, &kind, &name); n == 3 && strings.EqualFold(kind, "t") && !strings.Contains(line, "\t") &&
			r.IntN(100) == 0 {
			addrs = append(addrs, start, start+1)
		}
	}
	want, err := kallsyms(addrs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.names(append(addrs, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 100 || len(got) != len(want) {
		t.Errorf("%d names, %d listed", len(got), len(want))
	}
	for a, name := range want {
		if got[a] != name {
			t.Errorf("%x is %q, listed as %q", a, got[a], name)
		}
	}
}

func TestKernelNameOf(t *testing.T) {
	for text, want := range map[string]string{
		"tcp_sendmsg+0x2d/0x50":             "tcp_sendmsg",
		"nf_hook+0x0/0x10 [nf_tables]":      "nf_hook",
		"bpf_prog_a1b2_switches+0xf0/0x1f0": "bpf_prog_a1b2_switches",
		"__pfx_late+0x100000/0x200000":      "",
		"0xffffffff81000000":                "",
		"+0x1/0x2":                          "",
		"":                                  "",
		"name+0xnothing/0x10":               "",
	} {
		if got := kernelNameOf([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
