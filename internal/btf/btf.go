//go:build linux

// Package btf looks up what BPF programs need in the kernel's type information
// (Documentation/bpf/btf.rst): the offsets of struct fields, and the types of tracepoints. It indexes the
// 5 MB without decoding them, in 1 ms; github.com/cilium/ebpf/btf decodes every type.
package btf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"syscall"
)

// file is where the kernel shows its types.
const file = "/sys/kernel/btf/vmlinux"

// Kinds of types (include/uapi/linux/btf.h).
const (
	kindPointer   = 2
	kindStruct    = 4
	kindUnion     = 5
	kindTypedef   = 8
	kindVolatile  = 9
	kindConst     = 10
	kindRestrict  = 11
	kindFuncProto = 13
	kindTypeTag   = 18
)

// trailing is how many bytes follow the 12 of a type, by its kind: of itself, and of each of its members.
func trailing() [20]struct{ own, each uint32 } {
	return [20]struct{ own, each uint32 }{
		1: {own: 4}, 3: {own: 12}, kindStruct: {each: 12}, kindUnion: {each: 12}, 6: {each: 8}, kindFuncProto: {each: 8},
		14: {own: 4}, 15: {each: 12}, 17: {own: 4}, 19: {each: 12},
	}
}

// Types are the kernel's types. One goroutine at a time may use them.
type Types struct {
	types, strings []byte
	at             []uint32          // where each type begins; type 0 is void
	found          map[string]uint32 // by name: what was looked up, which takes 0.3 ms
	mapped         []byte            // nil: read
}

// ErrNone is the error of a kernel that does not show its types.
var ErrNone = errors.New("this kernel has no type information (CONFIG_DEBUG_INFO_BTF)")

// Read reads the types of the running kernel.
func Read() (*Types, error) {
	b, mapped, err := contents()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	var t *Types
	if err == nil {
		t, err = parse(b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the kernel's type information (%s): %w", file, err), unmap(mapped))
	}
	t.mapped = mapped
	return t, nil
}

// contents maps the file, which Linux 6.16 and later allow, or reads it, a page at a time.
func contents() (b, mapped []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if mapped, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_POPULATE); err == nil {
		return mapped, mapped, nil
	}
	b, err = io.ReadAll(f)
	return b, nil, err
}

func unmap(b []byte) error {
	if b == nil {
		return nil
	}
	return os.NewSyscallError("munmap", syscall.Munmap(b))
}

// Close gives the memory back.
func (t *Types) Close() error {
	mapped := t.mapped
	*t = Types{}
	return unmap(mapped)
}

var errDamaged = errors.New("it is damaged")

// parse makes an index of the types.
func parse(b []byte) (*Types, error) {
	const magic, headerBytes = 0xeb9f, 24
	if len(b) < headerBytes || binary.NativeEndian.Uint16(b) != magic {
		return nil, errors.New("it does not begin with BTF's magic number")
	}
	header := uint64(binary.NativeEndian.Uint32(b[4:]))
	part := func(at int) ([]byte, error) {
		from := header + uint64(binary.NativeEndian.Uint32(b[at:]))
		to := from + uint64(binary.NativeEndian.Uint32(b[at+4:]))
		if from > to || to > uint64(len(b)) {
			return nil, errDamaged
		}
		return b[from:to], nil
	}
	types, err := part(8)
	text, err2 := part(16)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	t := &Types{types: types, strings: text, at: make([]uint32, 1, 1+len(types)/24), found: map[string]uint32{}}
	follows := trailing()
	for at := uint32(0); int(at) < len(types); {
		if int(at)+12 > len(types) {
			return nil, errDamaged
		}
		kind, members := t.kind(at)
		if kind >= len(follows) {
			return nil, fmt.Errorf("type %d is of the unknown kind %d", len(t.at), kind)
		}
		t.at = append(t.at, at)
		at += 12 + follows[kind].own + follows[kind].each*members
		if int(at) > len(types) {
			return nil, errDamaged
		}
	}
	return t, nil
}

// tracepointPrefix begins the name of the type of a tracepoint's program.
const tracepointPrefix = "btf_trace_"

// find returns the number of the first type of a kind that has a name.
func (t *Types) find(kind int, name string) (id uint32, ok bool) {
	if id, ok = t.found[name]; ok {
		return id, true
	}
	place := 0
	for text := []byte(name + "\x00"); ; place++ { // each text stands once
		i := bytes.Index(t.strings[place:], text) // three times as fast as with the NUL before it
		if place += i; i < 0 {
			return 0, false
		}
		if place > 0 && t.strings[place-1] == 0 {
			break
		}
	}
	for id, at := range t.at[1:] {
		if k, _ := t.kind(at); k == kind && t.word(at, 0) == uint32(place) {
			t.found[name] = uint32(id) + 1
			return uint32(id) + 1, true
		}
	}
	return 0, false
}

func (t *Types) word(at uint32, n int) uint32 {
	return binary.NativeEndian.Uint32(t.types[int(at)+4*n:])
}

// kind returns the kind of the type at an offset, and its number of members.
func (t *Types) kind(at uint32) (kind int, members uint32) {
	info := t.word(at, 1)
	return int(info >> 24 & 0x1f), info & 0xffff
}

// bytes is the text at an offset of the strings.
func (t *Types) bytes(at uint32) []byte {
	if int(at) >= len(t.strings) {
		return nil
	}
	text := t.strings[at:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		return text[:end]
	}
	return text
}

// offset returns where a type begins.
func (t *Types) offset(id uint32) (at uint32, ok bool) {
	if id == 0 || int(id) >= len(t.at) {
		return 0, false
	}
	return t.at[id], true
}

// Tracepoint returns the number of the type of a tracepoint's program, and how many arguments it gets.
func (t *Types) Tracepoint(name string) (id uint32, arguments int, err error) {
	id, ok := t.find(kindTypedef, tracepointPrefix+name)
	if !ok {
		return 0, 0, fmt.Errorf("this kernel has no tracepoint %s", name)
	}
	at, ok := t.offset(id)
	for range 3 { // typedef, pointer, function
		if !ok {
			break
		}
		if kind, members := t.kind(at); kind == kindFuncProto {
			return id, max(int(members)-1, 0), nil // the first is the tracepoint's own
		}
		at, ok = t.offset(t.word(at, 2))
	}
	return 0, 0, fmt.Errorf("the type of the kernel's tracepoint %s is not a function", name)
}

// Offset returns where a field lies in a struct, in bytes. It looks through anonymous structs and
// unions; more names lead into the fields of fields.
func (t *Types) Offset(of string, path ...string) (int16, error) {
	id, ok := t.find(kindStruct, of)
	if !ok {
		return 0, fmt.Errorf("the kernel has no struct %s", of)
	}
	total := uint32(0)
	for _, name := range path {
		member, bits, ok := t.member(id, name, 0)
		if !ok {
			return 0, fmt.Errorf("struct %s has no field %s in this kernel", of, name)
		}
		total, id = total+bits/8, member
	}
	if total > math.MaxInt16 {
		return 0, fmt.Errorf("field %s of struct %s is %d bytes into it: too far for one load", path[len(path)-1], of, total)
	}
	return int16(total), nil
}

// depthMost bounds how deep anonymous structs nest; damaged types may contain themselves.
const depthMost = 16

// member finds a field of a struct or union: the number of its type, and its offset in bits.
func (t *Types) member(id uint32, name string, depth int) (found, bits uint32, ok bool) {
	at, ok := t.offset(t.plain(id))
	if !ok || depth > depthMost {
		return 0, 0, false
	}
	kind, members := t.kind(at)
	if kind != kindStruct && kind != kindUnion {
		return 0, 0, false
	}
	withSize := t.word(at, 1)>>31 == 1 // the offset's upper byte is then the size of a bit field
	for i := range members {
		m := at + 12 + 12*i
		offset := t.word(m, 2)
		if withSize {
			offset &= 0xffffff
		}
		own := t.bytes(t.word(m, 0))
		if string(own) == name {
			return t.word(m, 1), offset, true
		}
		if len(own) > 0 {
			continue
		}
		if found, bits, ok = t.member(t.word(m, 1), name, depth+1); ok {
			return found, offset + bits, true
		}
	}
	return 0, 0, false
}

// plain follows typedefs and qualifiers.
func (t *Types) plain(id uint32) uint32 {
	for range depthMost {
		at, ok := t.offset(id)
		if !ok {
			return id
		}
		switch kind, _ := t.kind(at); kind {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			id = t.word(at, 2)
		default:
			return id
		}
	}
	return id
}
