//go:build linux

package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// blocks is the content of a program's section, read on demand: a look-up needs some hundred blocks
// of a table that may have a hundred megabytes. It is not mapped, because truncating a mapped file
// kills the reader.
type blocks struct {
	from io.ReaderAt
	size uint64
	had  map[uint64][]byte // by block number
	err  error             // first read error

	number uint64 // the last one requested
	now    []byte
}

const blockSize = 4 << 10

func newBlocks(from io.ReaderAt, size uint64) *blocks {
	return &blocks{from: from, size: size, had: map[uint64][]byte{}}
}

// bytes returns how much of it is in memory.
func (b *blocks) bytes() int { return len(b.had) * blockSize }

// at returns the content of an offset's block from there on; nil after the end.
func (b *blocks) at(offset uint64) []byte {
	if n := offset / blockSize; b.now == nil || n != b.number {
		b.number, b.now = n, b.block(n)
	}
	return b.now[min(offset%blockSize, uint64(len(b.now))):]
}

func (b *blocks) block(n uint64) []byte {
	if block, had := b.had[n]; had || n > b.size/blockSize {
		return block
	}
	block := make([]byte, min(blockSize, b.size-n*blockSize))
	read, err := b.from.ReadAt(block, int64(n*blockSize))
	if err != nil && !errors.Is(err, io.EOF) && b.err == nil {
		b.err = err
	}
	b.had[n] = block[:read]
	return b.had[n]
}

// uint32 reads a number; false after the end.
func (b *blocks) uint32(offset uint64, order binary.ByteOrder) (uint32, bool) {
	if all := b.at(offset); len(all) >= 4 {
		return order.Uint32(all), true
	}
	var four [4]byte // it straddles two blocks
	for i := range four {
		rest := b.at(offset + uint64(i))
		if len(rest) == 0 {
			return 0, false
		}
		four[i] = rest[0]
	}
	return order.Uint32(four[:]), true
}

// text reads to the next zero byte, at most so many bytes.
func (b *blocks) text(offset uint64, most int) []byte {
	var text []byte
	for len(text) < most {
		rest := b.at(offset + uint64(len(text)))
		part, _, ends := bytes.Cut(rest, []byte{0})
		text = append(text, part...)
		if ends || len(rest) == 0 {
			break
		}
	}
	return text[:min(len(text), most)]
}
