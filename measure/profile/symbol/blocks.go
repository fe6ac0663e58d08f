package symbol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// blocks is what a section of a program holds, read where it is looked into: a
// lookup needs some hundred blocks of a table that may have a hundred megabytes.
// It is not mapped, because whoever shortens a file that is mapped kills the
// reader.
type blocks struct {
	from io.ReaderAt
	size uint64
	had  map[uint64][]byte // by their numbers
	err  error             // the first that a read ended with

	number uint64 // the last one that was asked for
	now    []byte
}

const blockSize = 4 << 10

func newBlocks(from io.ReaderAt, size uint64) *blocks {
	return &blocks{from: from, size: size, had: map[uint64][]byte{}}
}

// bytes is how much of it is in memory.
func (b *blocks) bytes() int { return len(b.had) * blockSize }

// at is what the block that holds an offset has from there on; nil behind the end.
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

// uint32 reads a number; false behind the end.
func (b *blocks) uint32(offset uint64, order binary.ByteOrder) (uint32, bool) {
	if all := b.at(offset); len(all) >= 4 {
		return order.Uint32(all), true
	}
	var four [4]byte // it lies across two blocks
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
