package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// reader decodes the binary forms. After the first error every read returns zero, and end returns
// the error.
type reader struct {
	b   []byte
	err error
}

// errDamaged is the error for bytes that do not decode: they cannot be repaired, so the details
// help no user.
var errDamaged = errors.New("it is damaged")

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// refuse fails if what was read is impossible.
func (r *reader) refuse(bad bool) {
	if bad {
		r.fail(errDamaged)
	}
}

// end returns the first error, or one if bytes are left over.
func (r *reader) end() error {
	r.refuse(len(r.b) > 0)
	return r.err
}

func (r *reader) version(want byte) {
	if b := r.take(1); len(b) == 1 && b[0] != want {
		r.fail(fmt.Errorf("it is of version %d, this program speaks %d; use the same ceiling on all hosts", b[0], want))
	}
}

// take returns the next n bytes, or nil.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail(errDamaged)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errDamaged)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errDamaged)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// number reads one that fits an int and is not negative.
func (r *reader) number() int {
	v := r.uint()
	r.refuse(v > math.MaxInt32)
	return int(v & math.MaxInt32)
}

func (r *reader) float() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(b))
	r.refuse(math.IsNaN(v) || math.IsInf(v, 0))
	return v
}

func (r *reader) bool() bool {
	b := r.take(1)
	r.refuse(len(b) == 1 && b[0] > 1)
	return len(b) == 1 && b[0] == 1
}

func (r *reader) text() string { return string(r.take(r.uint())) }

// sized passes on the bytes that their length precedes.
func (r *reader) sized(to func([]byte) error) {
	head := r.take(4)
	if head == nil {
		return
	}
	if b := r.take(uint64(binary.LittleEndian.Uint32(head))); r.err == nil {
		if err := to(b); err != nil {
			r.fail(err)
		}
	}
}

// time reads one that is not negative.
func (r *reader) time() int64 {
	v := r.uint()
	r.refuse(v > uint64(maxTime))
	return int64(v & uint64(maxTime-1))
}
