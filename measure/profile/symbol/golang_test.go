//go:build linux

package symbol

import (
	"bytes"
	"debug/gosym"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

// ownTable is the line table of this program.
func ownTable(tb testing.TB) (p *program, table []byte) {
	tb.Helper()
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	if p, err = openProgram(f); err != nil {
		tb.Fatal(err)
	}
	if table, err = p.lineTable().Data(); err != nil {
		tb.Fatal(err)
	}
	return p, table
}

// TestGoTableAgainstGosym: the standard library decodes all of the table, and
// answers the same of every address.
func TestGoTableAgainstGosym(t *testing.T) {
	needs.Time(t)
	p, table := ownTable(t)
	text := p.f.Section(".text")
	var addrs []uint64
	r := rand.New(rand.NewPCG(1, 2))
	for a := text.Addr - 8; a < text.Addr+text.Size+8; a += 1 + r.Uint64N(64) {
		addrs = append(addrs, a)
	}
	want, got := map[uint64]place{}, map[uint64]place{}
	all, err := gosym.NewTable(nil, gosym.NewLineTable(table, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if file, line, f := all.PCToLine(a); f != nil && f.Name != "" {
			want[a] = place{name: f.Name[:min(len(f.Name), nameMax)], file: file, line: line}
		}
	}
	if len(want) < len(addrs)*9/10 {
		t.Fatalf("debug/gosym names %d of %d addresses", len(want), len(addrs))
	}
	p.lookupGo(addrs, got)
	if p.lines == nil || len(got) != len(want) {
		t.Fatalf("%d of %d addresses have names, by debug/gosym %d", len(got), len(addrs), len(want))
	}
	for a, at := range want {
		if got[a] != at {
			t.Fatalf("%x is %+v, by debug/gosym %+v", a, got[a], at)
		}
	}
}

// TestGoTableAgainstAddr2line: so does Go's own tool.
func TestGoTableAgainstAddr2line(t *testing.T) {
	needs.Time(t)
	p, _ := ownTable(t)
	text := p.f.Section(".text")
	var ask bytes.Buffer
	var addrs []uint64
	for a := text.Addr; a < text.Addr+text.Size; a += text.Size / 500 {
		addrs = append(addrs, a)
		fmt.Fprintf(&ask, "%#x\n", a)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tool := exec.Command("go", "tool", "addr2line", exe)
	tool.Stdin = &ask
	out, err := tool.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	found := map[uint64]place{}
	p.lookupGo(addrs, found)
	if len(answers) != 2*len(addrs) {
		t.Fatalf("%d lines of answers to %d addresses", len(answers), len(addrs))
	}
	named := 0
	for i, a := range addrs {
		name, line := answers[2*i], answers[2*i+1]
		if name == "?" {
			continue
		}
		name = name[:min(len(name), nameMax)]
		named++
		if at := found[a]; at.name != name || fmt.Sprintf("%s:%d", at.file, at.line) != line {
			t.Errorf("%x is %+v, by addr2line %s at %s", a, at, name, line)
		}
	}
	if named < len(addrs)*9/10 {
		t.Errorf("addr2line names %d of %d addresses", named, len(addrs))
	}
}

// FuzzGoTable takes any table: one cut out of this program's is among the first.
func FuzzGoTable(f *testing.F) {
	p, table := ownTable(f)
	f.Add(table[:64<<10], p.textStart()+100)
	f.Add([]byte("\xf1\xff\xff\xff\x00\x00\x01\x08"), uint64(0x401000))
	f.Add([]byte("\xfb\xff\xff\xff\x00\x00\x01\x08"), uint64(0x401000))
	f.Fuzz(func(t *testing.T, table []byte, addr uint64) {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			lines, ok := openGoTable(newBlocks(bytes.NewReader(table), uint64(len(table))), order, 0x401000)
			if !ok {
				continue
			}
			if at, ok := lines.lookup(addr); ok && (at.name == "" || len(at.name) > nameMax || len(at.file) > pathMax) {
				t.Errorf("%x is %+v", addr, at)
			}
		}
	})
}

// FuzzBlocks reads what a plain slice has.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte("name\x00"), uint64(0), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, repeat, offset uint64) {
		data = bytes.Repeat(data, int(repeat%3000))
		b := newBlocks(bytes.NewReader(data), uint64(len(data)))
		offset %= uint64(len(data)) + 8
		rest := data[min(offset, uint64(len(data))):]
		n, ok := b.uint32(offset, binary.LittleEndian)
		if want := len(rest) >= 4; ok != want || ok && n != binary.LittleEndian.Uint32(rest) {
			t.Errorf("%d, %v at %d of %d bytes", n, ok, offset, len(data))
		}
		want, _, _ := bytes.Cut(rest, []byte{0})
		if got := b.text(offset, 5000); !bytes.Equal(got, want[:min(len(want), 5000)]) {
			t.Errorf("%d bytes of text, want %d", len(got), len(want))
		}
	})
}
