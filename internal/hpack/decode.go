// Package hpack reads and writes HTTP/2 field blocks (RFC 7541) without allocating. It writes
// blocks that do not depend on earlier ones; it reads any, with a dynamic table of the announced
// size or without one.
package hpack

import "errors"

// The kinds of a field, by the first bits of its first byte (section 6).
const (
	flagIndexed = 0x80
	flagIndex   = 0x40
	flagSize    = 0x20
	flagNever   = 0x10
	flagHuffman = 0x80
)

// Errors in a block. All are compression errors, which end the connection (RFC 9113, section
// 4.3).
var (
	ErrTruncated = errors.New("header block cut short")
	ErrInteger   = errors.New("header block with an integer over 2^31")
	ErrHuffman   = errors.New("header block with a bad Huffman code")
	ErrIndex     = errors.New("header block with an index that no table has")
	ErrTableSize = errors.New("header block with a bad change of the table size")
	ErrText      = errors.New("header block with a string that is too long")
)

// defaultTableSize applies until another is announced (RFC 9113, section 6.5.2).
const defaultTableSize = 4096

// textMost limits a name or value: more than any limit on a whole head.
const textMost = 1 << 20

// Field of a block. Its bytes are valid until the next call of Next.
type Field struct {
	Name, Value []byte
	// Sensitive fields must not be indexed by any intermediary.
	Sensitive bool
}

// Decoder reads the blocks of one connection in order, each to its end. The zero value has no
// dynamic table and rejects references to one.
type Decoder struct {
	b      []byte
	began  bool // the block had a field: the table's size must not change any more
	effect Effect
	limit  uint32
	table  table
	text   []byte // Huffman-decoded strings, and names that the table may drop
}

// Effect is a block's effect on the dynamic table. Another block of the same bytes has the same
// meaning if it is Stateless, or if it is Indexing and neither connection has a table.
type Effect uint8

// The effects.
const (
	Stateless Effect = iota
	Indexing         // its fields would be added to a table, but there is none
	Stateful         // refers to the table, or changes it
)

// SetLimit sets the maximum size of the dynamic table: the announced one
// (SETTINGS_HEADER_TABLE_SIZE), or 4,096. The table has 4,096 bytes until the peer changes it at
// the start of a block (RFC 7541, section 4.2): it may not have read the announcement yet, and
// h2o 2.2 never follows it.
func (d *Decoder) SetLimit(size uint32) {
	d.limit = size
	d.table.resize(defaultTableSize)
}

// HasTable reports whether there is currently a dynamic table.
func (d *Decoder) HasTable() bool { return d.table.most > 0 }

// Effect returns the effect of a block read to its end.
func (d *Decoder) Effect() Effect { return d.effect }

// Begin starts the next block. With a dynamic table, the previous one must have been read to its
// end.
func (d *Decoder) Begin(block []byte) { d.b, d.began, d.effect = block, false, Stateless }

// Next returns the next field. ok is false at the end of the block, and with an error, which is
// final.
func (d *Decoder) Next() (f Field, ok bool, err error) {
	for len(d.b) > 0 {
		switch first := d.b[0]; {
		case first&flagIndexed != 0:
			return d.indexed()
		case first&flagIndex != 0:
			return d.literal(6, true)
		case first&flagSize != 0:
			size, err := d.int(5)
			if err != nil {
				return f, false, err
			}
			if d.began || size > max(d.limit, d.table.most) {
				return f, false, ErrTableSize
			}
			d.table.resize(size)
			d.effect = Stateful
		default:
			return d.literal(4, false)
		}
	}
	return f, false, nil
}

func (d *Decoder) indexed() (f Field, ok bool, err error) {
	d.began = true
	at, err := d.int(7)
	if err != nil {
		return f, false, err
	}
	n, ok := d.load(at)
	if !ok {
		return f, false, ErrIndex
	}
	return Field{Name: d.text[:n:n], Value: d.text[n:]}, true, nil
}

func (d *Decoder) literal(prefix uint8, index bool) (f Field, ok bool, err error) {
	d.began = true
	f.Sensitive = d.b[0]&^0x0f == flagNever
	at, err := d.int(prefix)
	if err != nil {
		return f, false, err
	}
	n := 0
	if at == 0 {
		d.text = d.text[:0]
		if err = d.string(); err != nil {
			return f, false, err
		}
		n = len(d.text)
	} else if n, ok = d.load(at); !ok {
		return f, false, ErrIndex
	}
	d.text = d.text[:n]
	if err = d.string(); err != nil {
		return f, false, err
	}
	f.Name, f.Value = d.text[:n:n], d.text[n:]
	if index {
		d.effect = max(d.effect, Indexing)
		if d.HasTable() {
			d.effect = Stateful
			d.table.add(f.Name, f.Value)
		}
	}
	return f, true, nil
}

// keptBytes is the memory that a decoder keeps for names and values, besides its table.
const keptBytes = 4 << 10

// Shrink frees the memory of long names and values, between two blocks.
func (d *Decoder) Shrink() {
	d.b = nil
	if cap(d.text) > keptBytes {
		d.text = nil
	}
}

// load copies an entry of either table to text: its name, n bytes, and its value. It copies
// because an entry may be dropped for the very field that refers to it.
func (d *Decoder) load(at uint32) (n int, ok bool) {
	if at == 0 {
		return 0, false
	}
	if at <= uint32(len(static)) {
		f := &static[at-1]
		d.text = append(append(d.text[:0], f.name...), f.value...)
		return len(f.name), true
	}
	d.effect = Stateful
	name, value, ok := d.table.get(at - uint32(len(static)) - 1)
	d.text = append(append(d.text[:0], name...), value...)
	return len(name), ok
}

// string appends the next string literal to text.
func (d *Decoder) string() error {
	if len(d.b) == 0 {
		return ErrTruncated
	}
	coded := d.b[0]&flagHuffman != 0
	n, err := d.int(7)
	switch {
	case err != nil:
		return err
	case n > textMost:
		return ErrText
	case int(n) > len(d.b):
		return ErrTruncated
	}
	b := d.b[:n]
	d.b = d.b[n:]
	if !coded {
		d.text = append(d.text, b...)
		return nil
	}
	var whole bool
	if d.text, whole = decodeHuffman(d.text, b); !whole {
		return ErrHuffman
	}
	return nil
}

// int reads an integer (section 5.1).
func (d *Decoder) int(prefix uint8) (uint32, error) {
	most := byte(1)<<prefix - 1
	v := uint64(d.b[0] & most)
	d.b = d.b[1:]
	if v < uint64(most) {
		return uint32(v), nil
	}
	for shift := 0; shift <= 28; shift += 7 {
		if len(d.b) == 0 {
			return 0, ErrTruncated
		}
		next := d.b[0]
		d.b = d.b[1:]
		if v += uint64(next&0x7f) << shift; v > 1<<31 {
			return 0, ErrInteger
		}
		if next < 0x80 {
			return uint32(v), nil
		}
	}
	return 0, ErrInteger
}
