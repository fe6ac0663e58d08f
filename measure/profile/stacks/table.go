//go:build linux

package stacks

import (
	"encoding/binary"

	"ceiling/measure/profile/symbol"
)

// table counts stacks. It distinguishes up to stacksMax; any more are counted without their stack.
type table struct {
	counts map[string]*counted
	key    []byte
	all    int // samples
	spare  int // of these, those without a stack
	block  int // that samples belong to; noBlock: none
}

// stacksMax bounds the distinct stacks kept: with 64 frames each, 10 MB.
const stacksMax = 16384

// counted is one stack.
type counted struct {
	space        *symbol.Space
	thread       string   // name of the threads' group
	kernel, user []uint64 // innermost first
	value        int64    // samples, or nanoseconds
	times        int64
	blocks       []int64 // value of each block
}

// noBlock: the run has no blocks, or is between two.
const noBlock = -1

func newTable() *table { return &table{counts: map[string]*counted{}, block: noBlock} }

// inBlock counts a value for a block.
func (c *counted) inBlock(block int, value int64) {
	if block == noBlock {
		return
	}
	if block >= len(c.blocks) {
		c.blocks = append(c.blocks, make([]int64, block+1-len(c.blocks))...)
	}
	c.blocks[block] += value
}

// add counts a stack of a process.
func (t *table) add(space *symbol.Space, thread string, kernel, user []uint64, value int64) {
	t.all++
	k := binary.NativeEndian.AppendUint32(t.key[:0], uint32(space.PID))
	k = append(append(k, thread...), 0)
	k = binary.NativeEndian.AppendUint32(k, uint32(len(kernel)))
	for _, part := range [2][]uint64{kernel, user} {
		for _, a := range part {
			k = binary.NativeEndian.AppendUint64(k, a)
		}
	}
	t.key = k
	c := t.counts[string(k)]
	if c == nil {
		if len(t.counts) == stacksMax {
			t.spare++
			return
		}
		c = &counted{space: space, thread: thread, kernel: append([]uint64(nil), kernel...), user: append([]uint64(nil), user...)}
		t.counts[string(k)] = c
	}
	c.value += value
	c.times++
	c.inBlock(t.block, value)
}

// addresses returns all addresses to symbolize. All but the innermost are return addresses: the
// call is in the byte before.
func (t *table) addresses() []symbol.Address {
	var list []symbol.Address
	for _, c := range t.counts {
		c.each(func(a symbol.Address) { list = append(list, a) })
	}
	return list
}

// each visits the frames, innermost first.
func (c *counted) each(visit func(symbol.Address)) {
	for i, a := range c.kernel {
		if i > 0 {
			a--
		}
		visit(symbol.Address{At: a})
	}
	for i, a := range c.user {
		// The program's first frame below the kernel's is the location of the system call or
		// interrupt itself.
		if i > 0 {
			a--
		}
		visit(symbol.Address{Space: c.space, At: a})
	}
}
