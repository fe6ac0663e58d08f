//go:build linux

package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// Names in perf maps, each runtime has its own form.
//
//	node    JS:*handler /srv/app.js:12:20     LazyCompile:~get node:internal/url:1:2
//	python  py::handler:/srv/app.py
//	java    Lcom/example/Shop;::find          java.lang.String com.example.Shop.find(int)

// madeFrame parses a name of a perf map.
func madeFrame(name string) Frame {
	f := Frame{Name: name, Package: jit, Mapped: true}
	switch {
	case strings.HasPrefix(name, "py::"):
		f.Name, f.File, _ = strings.Cut(strings.TrimPrefix(name, "py::"), ":")
		f.Package = scriptPackage(f.File)
	case strings.HasPrefix(name, "L") && strings.Contains(name, ";::"):
		class, method, _ := strings.Cut(name[1:], ";::")
		class = strings.ReplaceAll(class, "/", ".")
		f.Name, f.Package = class+"."+method, beforeLast(class)
	default:
		kind, rest, ok := strings.Cut(name, ":")
		switch kind {
		case "JS", "LazyCompile", "Function", "Eval", "Script", "RegExp", "Handler", "Builtin", "BytecodeHandler", "Stub":
		default:
			ok = false
		}
		if ok {
			f.script(rest)
			break
		}
		if before, _, ok := strings.Cut(name, "("); ok && strings.Contains(before, ".") {
			// java: a type, and a method with its parameters.
			f.Name = before[strings.LastIndexByte(before, ' ')+1:]
			f.Package = beforeLast(beforeLast(f.Name))
		}
	}
	return f
}

// script parses V8's description of a function: its name, with a prefix for its compilation tier,
// and file, line and column.
func (f *Frame) script(text string) {
	text = strings.TrimLeft(text, "*~^+'")
	name, at, ok := strings.Cut(text, " ")
	f.Package = "v8"
	if !ok {
		f.Name = text
		return
	}
	if name == "" {
		name = "(anonymous)"
	}
	f.Name, f.File = name, at
	if rest, _, ok := cutLast(at); ok { // the column
		if file, line, ok := cutLast(rest); ok {
			if n, err := strconv.Atoi(line); err == nil {
				f.File, f.Line = file, n
			}
		}
	}
	f.Package = scriptPackage(f.File)
}

func cutLast(s string) (before, after string, ok bool) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func beforeLast(s string) string {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		return s[:i]
	}
	return s
}

// scriptPackage returns the installed package that a script belongs to, or its file.
func scriptPackage(file string) string {
	for _, dir := range []string{"/node_modules/", "/site-packages/", "/dist-packages/"} {
		if i := strings.LastIndex(file, dir); i >= 0 {
			rest := file[i+len(dir):]
			name, more, _ := strings.Cut(rest, "/")
			if scope, _, ok := strings.Cut(more, "/"); ok && strings.HasPrefix(name, "@") {
				name += "/" + scope
			}
			return strings.TrimSuffix(name, ".py")
		}
	}
	if strings.HasPrefix(file, "node:") {
		return file
	}
	return path.Base(file)
}

// perfMapMax bounds the part of a perf map that is read: a large Java server's has some 10 MB.
const perfMapMax = 256 << 20

// nameMax bounds a name.
const nameMax = 400

// readPerfMap names ascending addresses from a perf map: lines of "START SIZE name" in hexadecimal
// (tools/perf/Documentation/jit-interface.txt). Replaced code gets another line, so the last one
// that contains an address wins.
func readPerfMap(r io.Reader, addrs []uint64) (map[uint64]string, error) {
	found := map[uint64]string{}
	lines := bufio.NewScanner(io.LimitReader(r, perfMapMax))
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		start, size, name, ok := perfMapLine(lines.Bytes())
		if !ok {
			continue
		}
		for i := lowerBound(addrs, start); i < len(addrs) && addrs[i]-start < size; i++ {
			found[addrs[i]] = string(name)
		}
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("read perf map: %w", err)
	}
	return found, nil
}

func perfMapLine(line []byte) (start, size uint64, name []byte, ok bool) {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	second, name, _ := bytes.Cut(rest, []byte(" "))
	start, errStart := strconv.ParseUint(string(bytes.TrimPrefix(first, []byte("0x"))), 16, 64)
	size, errSize := strconv.ParseUint(string(bytes.TrimPrefix(second, []byte("0x"))), 16, 64)
	name = bytes.TrimSpace(name)
	return start, size, name[:min(len(name), nameMax)], errStart == nil && errSize == nil && len(name) > 0
}
