//go:build linux

package symbol

import (
	"encoding/binary"
	"sort"
)

// goTable is the table of functions and lines that Go's linker writes, which even a stripped
// program has. Of the whole table, with 100,000 functions in a large program, it only reads what
// leads to the requested addresses: the runtime finds them the same way (runtime.findfunc,
// runtime.pcvalue).
type goTable struct {
	data    *blocks
	order   binary.ByteOrder
	text    uint64 // address of the first function
	quantum uint64 // smallest size of an instruction
	count   int    // functions
	// Offsets of its tables: names, files of each compilation unit, file names, values by address,
	// functions.
	names, units, files, values, functions uint64
}

// The magic number of a table, by the Go version that wrote it. Older ones are not read: those
// programs have a symbol table.
const (
	magicGo118 = 0xfffffff0
	magicGo120 = 0xfffffff1
)

// Limits on a table's content: a path, and the values of a function.
const (
	pathMax   = 4 << 10
	valuesMax = 1 << 20
)

// openGoTable reads the header; false if the table is of another kind, or damaged. text is the
// start of the code, which the table lacks since Go 1.26.
func openGoTable(data *blocks, order binary.ByteOrder, text uint64) (*goTable, bool) {
	magic, _ := data.uint32(0, order)
	rest := data.at(4) // two zeros, quantum, pointer size
	if magic != magicGo118 && magic != magicGo120 || len(rest) < 4 || rest[0] != 0 || rest[1] != 0 {
		return nil, false
	}
	t := &goTable{data: data, order: order, text: text, quantum: uint64(rest[2])}
	pointer := uint64(rest[3])
	if pointer != 4 && pointer != 8 {
		return nil, false
	}
	var count uint64
	for word, into := range map[uint64]*uint64{0: &count, 3: &t.names, 4: &t.units, 5: &t.files, 6: &t.values, 7: &t.functions} {
		// The upper half of an 8-byte pointer is zero: no table is that large.
		at := 8 + word*pointer
		if pointer == 8 && order == binary.ByteOrder(binary.BigEndian) {
			at += 4
		}
		value, ok := data.uint32(at, order)
		if !ok {
			return nil, false
		}
		*into = uint64(value)
	}
	if count == 0 || t.functions > data.size || count > (data.size-t.functions)/8 {
		return nil, false
	}
	t.count = int(count)
	return t, true
}

// entry returns where a function begins; the one after the last says where that ends.
func (t *goTable) entry(i int) uint64 {
	offset, _ := t.data.uint32(t.functions+8*uint64(i), t.order)
	return t.text + uint64(offset)
}

// lookup names an address.
func (t *goTable) lookup(pc uint64) (place, bool) {
	i := sort.Search(t.count+1, func(i int) bool { return t.entry(i) > pc })
	if i == 0 || i > t.count {
		return place{}, false
	}
	offset, ok := t.data.uint32(t.functions+8*uint64(i-1)+4, t.order)
	if !ok {
		return place{}, false
	}
	f := goFunction{t, t.functions + uint64(offset)}
	name := string(t.data.text(t.names+f.field(1), nameMax))
	if name == "" {
		return place{}, false
	}
	at := place{name: name, line: int(f.value(f.field(6), pc))}
	if number := f.value(f.field(5), pc); number >= 0 {
		offset, ok := t.data.uint32(t.units+4*uint64(uint32(f.field(8))+uint32(number)), t.order)
		if ok && offset != ^uint32(0) {
			at.file = string(t.data.text(t.files+uint64(offset), pathMax))
		}
	}
	return at, true
}

// goFunction is the table's entry of a function: fields of 4 bytes, the first of which is where it
// begins (runtime._func).
type goFunction struct {
	t  *goTable
	at uint64
}

func (f goFunction) field(n uint64) uint64 {
	value, _ := f.t.data.uint32(f.at+4*n, f.t.order)
	return uint64(value)
}

// value returns the value at an address: a line, or the number of a file; -1 if there is none. The
// list has differences, of the value and of the address.
func (f goFunction) value(list, pc uint64) int32 {
	v := varints{f.t.data, f.t.values + list, f.t.values + list + valuesMax}
	entry := f.t.text + f.field(0)
	value, at := int32(-1), entry
	for {
		d, ok := v.next()
		if !ok || d == 0 && at != entry {
			return -1
		}
		if d&1 != 0 {
			d = ^(d >> 1)
		} else {
			d >>= 1
		}
		step, ok := v.next()
		if !ok {
			return -1
		}
		value += int32(d)
		if at += uint64(step * uint32(f.t.quantum)); pc < at {
			return value
		}
	}
}

// varints reads numbers of 7 bits per byte.
type varints struct {
	data   *blocks
	at, to uint64
}

func (v *varints) next() (n uint32, ok bool) {
	for shift := 0; ; shift += 7 {
		rest := v.data.at(v.at)
		if len(rest) == 0 || v.at >= v.to {
			return 0, false
		}
		v.at++
		n |= uint32(rest[0]&0x7f) << shift
		if rest[0]&0x80 == 0 {
			return n, true
		}
	}
}
