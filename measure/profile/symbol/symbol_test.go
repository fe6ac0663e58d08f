//go:build linux

package symbol

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"ceiling/internal/needs"
)

func TestParseMaps(t *testing.T) {
	text := "55d0c8a00000-55d0c8a2c000 r--p 00000000 fe:00 1234   /bin/x\n" +
		"55d0c8a2c000-55d0c8b00000 r-xp 0002c000 fe:00 1234                       /bin/with space (deleted)\n" +
		"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n" +
		"7ffd1c7f0000-7ffd1c7f2000 r-xp 00000000 00:00 0                          [vdso]\n" +
		"garbage\n7f-\n" + "9-1 r-xp 0 0:0 0 backwards\n"
	want := []Mapping{
		{Start: 0x55d0c8a2c000, End: 0x55d0c8b00000, Offset: 0x2c000, Device: "fe:00", Inode: 1234, Path: "/bin/with space (deleted)"},
		{Start: 0x7f0000000000, End: 0x7f0000001000, Device: "00:00"},
		{Start: 0x7ffd1c7f0000, End: 0x7ffd1c7f2000, Device: "00:00", Path: "[vdso]"},
	}
	got := ParseMaps([]byte(text))
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
	for addr, path := range map[uint64]string{0x55d0c8a2c000: want[0].Path, 0x55d0c8afffff: want[0].Path, 0x7ffd1c7f1000: "[vdso]"} {
		if m := find(got, addr); m == nil || m.Path != path {
			t.Errorf("%x lies in %+v", addr, m)
		}
	}
	for _, addr := range []uint64{0, 0x55d0c8a2bfff, 0x55d0c8b00000, 0x7f0000001000, 1 << 63} {
		if m := find(got, addr); m != nil {
			t.Errorf("%x lies in %+v, and should in none", addr, m)
		}
	}
}

// TestNearest: against a search through all symbols.
func TestNearest(t *testing.T) {
	addrs := []uint64{5, 10, 11, 100, 4 << 20}
	n := newNearest(addrs)
	for _, s := range []struct {
		start, size uint64
		name        string
	}{{90, 0, "late"}, {10, 0, "ten"}, {10, 1, "ten sized"}, {4, 2, "four"}, {200, 8, "beyond"}, {3, 0, "three"}} {
		if at, ok := n.wants(s.start, s.size); ok {
			n.keep(at, s.start, s.size, []byte(s.name))
		}
	}
	want := map[uint64]string{5: "four", 10: "ten sized", 100: "late"}
	if got := n.names(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v: 11 is behind the end of its function, the last behind all", got, want)
	}
}

func TestPerfMap(t *testing.T) {
	text := "7f00 10 old\n7f00 10 LazyCompile:*handler /srv/app.js:12:20\nnonsense\n0x8000 0x20 py::find:/srv/shop.py\n9000 0 empty\nffffffffffffff00 ffff last\n"
	got, err := readPerfMap(strings.NewReader(text), []uint64{0x7eff, 0x7f00, 0x7f0f, 0x7f10, 0x801f, 0x9000, 0xffffffffffffff01})
	want := map[uint64]string{
		0x7f00: "LazyCompile:*handler /srv/app.js:12:20", 0x7f0f: "LazyCompile:*handler /srv/app.js:12:20",
		0x801f: "py::find:/srv/shop.py", 0xffffffffffffff01: "last",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestMadeFrames(t *testing.T) {
	for name, want := range map[string]Frame{
		"JS:*handler /srv/app.js:12:20": {Name: "handler", Package: "app.js", File: "/srv/app.js", Line: 12,
			Mapped: true},
		"LazyCompile:~ node:internal/url:7:2": {Name: "(anonymous)", Package: "node:internal/url",
			File: "node:internal/url", Line: 7, Mapped: true},
		"JS:^render /srv/node_modules/@scope/mustache/index.js:1:2": {Name: "render", Package: "@scope/mustache",
			File: "/srv/node_modules/@scope/mustache/index.js", Line: 1, Mapped: true},
		"py::find:/usr/lib/python3/dist-packages/flask/app.py": {Name: "find", Package: "flask",
			File: "/usr/lib/python3/dist-packages/flask/app.py", Mapped: true},
		"Lcom/example/Shop;::find":                                    {Name: "com.example.Shop.find", Package: "com.example", Mapped: true},
		"java.lang.String com.example.Shop.find(int, java.util.List)": {Name: "com.example.Shop.find", Package: "com.example", Mapped: true},
		"Interpreter":               {Name: "Interpreter", Package: jit, Mapped: true},
		"Builtin:ArrayPrototypeMap": {Name: "ArrayPrototypeMap", Package: "v8", Mapped: true},
	} {
		if got := madeFrame(name); got != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNativeNames(t *testing.T) {
	for name, want := range map[string]string{
		"_ZN5nginx6server6handleERKNS_7RequestE": "nginx::server::handle", "memcpy@@GLIBC_2.14": "memcpy", "main": "main",
		"_Zgarbage": "_Zgarbage",
		"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE": "core::fmt::Formatter::pad",
	} {
		if got := frameOf(place{name: name}, "x", false).Name; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"encoding/json.(*Decoder).Decode": "encoding/json", "main.main.func1": "main", "memeqbody": "runtime",
		"slices.SortFunc[go.shape.[]example.com/a/b.T]": "slices", "gopkg.in/yaml%2ev3.Marshal": "gopkg.in/yaml.v3",
	} {
		if got := goPackage(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRuntimeByMappings(t *testing.T) {
	for _, c := range []struct{ exe, lib, want string }{
		{"java", "/opt/jdk/lib/server/libjvm.so", Java}, {"python3.11", "", Python}, {"uwsgi", "/usr/lib/libpython3.11.so.1.0", Python},
		{"node", "", Node}, {"php-fpm8.2", "", PHP}, {"nginx", "/lib/libc.so.6", Native},
		{"apache2", "/usr/lib/apache2/modules/libphp8.2.so", PHP},
	} {
		if got := runtimeOf(c.exe, []Mapping{{Path: c.lib}}); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.exe, c.lib, got, c.want)
		}
	}
	s, err := OpenSpace(os.Getpid())
	if err != nil || s.Runtime != Go {
		t.Errorf("this program: %+v, %v", s, err)
	}
	if _, err := OpenSpace(1 << 30); err == nil {
		t.Error("a process that is not there has an address space")
	}
}

//go:noinline
func here() uint64 {
	var pcs [1]uintptr
	runtime.Callers(1, pcs[:])
	return uint64(pcs[0]) - 1
}

// TestResolveThisProgram: held against the runtime's own answer.
func TestResolveThisProgram(t *testing.T) {
	s, err := OpenSpace(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	at := Address{s, here()}
	nowhere := Address{s, 1}
	frames, missing := new(Names).Resolve([]Address{at, nowhere, at})
	f := frames[at]
	want, _ := runtime.CallersFrames([]uintptr{uintptr(at.At) + 1}).Next()
	if f.Name != want.Function || f.File != want.File || f.Line != want.Line || !strings.HasSuffix(f.Package, "measure/profile/symbol") {
		t.Errorf("%+v, the runtime says %+v", f, want)
	}
	if frames[nowhere].Mapped {
		t.Error("address 1 is code")
	}
	if len(missing) > 0 {
		t.Error(missing)
	}
}

// TestStrippedGo: a program without a table of symbols keeps Go's line table.
func TestStrippedGo(t *testing.T) {
	needs.Time(t)
	dir := t.TempDir()
	source := "package main\n\n//go:noinline\nfunc planted(n int) int { return n * n }\n\nfunc main() { println(planted(3)) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"exe", "pie"} {
		exe := filepath.Join(dir, mode)
		build := exec.Command("go", "build", "-buildmode="+mode, "-ldflags=-s -w", "-o", exe, "main.go")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f, err := os.Open(exe)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p, err := openProgram(f)
		if err != nil {
			t.Fatal(err)
		}
		if p.f.SectionByType(elf.SHT_SYMTAB) != nil && mode == "exe" {
			t.Fatal("the program was not stripped")
		}
		text := p.f.Section(".text")
		var addrs []uint64
		for a := text.Addr; a < text.Addr+text.Size; a += 16 {
			addrs = append(addrs, a)
		}
		found, _ := p.lookup(addrs)
		named := false
		for _, at := range found {
			named = named || at.name == "main.planted" && at.line == 4
		}
		if !named || len(found) < len(addrs)*9/10 {
			t.Errorf("%s: main.planted found: %v, %d of %d addresses have names", mode, named, len(found), len(addrs))
		}
	}
}

// TestSymbolTable: testdata/small.elf is two C functions, linked by themselves.
func TestSymbolTable(t *testing.T) {
	f, err := os.Open("testdata/small.elf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := openProgram(f)
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := p.address(0x1004)
	found, full := p.lookup([]uint64{addr})
	if !ok || !full || p.isGo() || found[addr].name != "planted" {
		t.Errorf("offset 0x1004 is %x (%v): %v, full %v, Go %v", addr, ok, found, full, p.isGo())
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add([]byte("55d0c8a2c000-55d0c8b00000 r-xp 0002c000 fe:00 1234 /bin/x\n"), uint64(0x55d0c8a2c001))
	f.Fuzz(func(t *testing.T, text []byte, addr uint64) {
		list := ParseMaps(text)
		if m := find(list, addr); m != nil && (addr < m.Start || addr >= m.End) {
			t.Errorf("%x is not in %+v", addr, m)
		}
		runtimeOf("x", list)
		innerPID(text, 1)
	})
}

func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("7f00 10 LazyCompile:*handler /srv/app.js:12:20\n"), uint64(0x7f05))
	f.Fuzz(func(t *testing.T, text []byte, addr uint64) {
		names, _ := readPerfMap(strings.NewReader(string(text)), []uint64{addr})
		for _, name := range names {
			madeFrame(name)
		}
		if _, err := readKallsyms(strings.NewReader(string(text)), []uint64{addr}); err != nil {
			return
		}
		kernelNameOf(text)
	})
}

func FuzzELF(f *testing.F) {
	small, err := os.ReadFile("testdata/small.elf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small, uint64(0x401000))
	f.Add([]byte("\x7fELF\x02\x01\x01"), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		p, err := openProgram(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		p.address(addr)
		p.isGo()
		p.debugFile()
		found, _ := p.lookup([]uint64{addr})
		for _, at := range found {
			frameOf(at, "x", p.isGo())
		}
	})
}
