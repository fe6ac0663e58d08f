package hist

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestWireIsExact: what was encoded comes back the same in every field, also
// where values and counts are as large as they get, over whatever was there.
func TestWireIsExact(t *testing.T) {
	var back Hist
	rapid.Check(t, func(t *rapid.T) {
		var h Hist
		for range rapid.IntRange(0, 60).Draw(t, "values") {
			v := int64(rapid.Uint64().Draw(t, "value") >> rapid.IntRange(1, 63).Draw(t, "shift"))
			h.RecordN(v, rapid.Uint64Range(0, 1<<50).Draw(t, "times"))
		}
		b, err := h.AppendBinary([]byte("before"))
		if err != nil || !bytes.HasPrefix(b, []byte("before")) {
			t.Fatal(b, err)
		}
		if err := back.UnmarshalBinary(b[len("before"):]); err != nil {
			t.Fatal(err)
		}
		if back != h {
			t.Fatal("another histogram came back")
		}
	})
}

// TestWireOfMergeAndReset: a histogram that was merged into and emptied encodes
// as one that never was.
func TestWireOfMergeAndReset(t *testing.T) {
	var a, b Hist
	a.RecordN(1000, 3)
	b.Record(math.MaxInt64)
	a.Merge(&b)
	a.Reset()
	text, _ := a.AppendBinary(nil)
	if string(text) != "\x01\x00" {
		t.Errorf("empty is %x", text)
	}
}

// TestWireRefuses: each of these has one thing wrong.
func TestWireRefuses(t *testing.T) {
	var h Hist
	h.Record(5)
	h.Record(9)
	good, _ := h.AppendBinary(nil)
	if want := []byte{1, 2, 0, 14, 5, 9, 0, 1, 4, 1}; !bytes.Equal(good, want) {
		t.Fatalf("the form is %v", good)
	}
	for what, b := range map[string][]byte{
		"nothing":              {},
		"another version":      {2, 0},
		"more than empty":      {1, 0, 0},
		"cut":                  good[:len(good)-1],
		"without buckets":      good[:6],
		"a bucket too many":    append(bytes.Clone(good), 1, 1),
		"smallest above":       {1, 2, 0, 14, 9, 5, 0, 1, 4, 1},
		"sum too small":        {1, 2, 0, 13, 5, 9, 0, 1, 4, 1},
		"sum too large":        {1, 2, 1, 14, 5, 9, 0, 1, 4, 1},
		"first bucket is not":  {1, 2, 0, 14, 5, 9, 1, 1, 3, 1},
		"last bucket is not":   {1, 2, 0, 14, 5, 9, 0, 1, 3, 1},
		"beyond the last":      {1, 2, 0, 14, 5, 9, 0, 1, 5, 1},
		"an empty bucket":      {1, 2, 0, 14, 5, 9, 0, 2, 4, 0},
		"count is not the sum": {1, 3, 0, 19, 5, 9, 0, 1, 4, 1},
		"more than the count":  {1, 2, 0, 14, 5, 9, 0, 2, 4, 1},
		"one value, two ends":  {1, 1, 0, 5, 5, 9, 0, 1},
		"endless number":       append([]byte{1}, bytes.Repeat([]byte{0xff}, 12)...),
	} {
		var got Hist
		got.Record(77)
		if err := got.UnmarshalBinary(b); err == nil {
			t.Errorf("%s was accepted", what)
		} else if got != (Hist{}) {
			t.Errorf("%s left something behind", what)
		}
	}
}

// TestWireAllocatesNothing: decoding is bounded whatever the input says.
func TestWireAllocatesNothing(t *testing.T) {
	var h, back Hist
	for range 1000 {
		h.Record(int64(50_000 + rand.ExpFloat64()*20_000))
	}
	b, _ := h.AppendBinary(nil)
	if n := testing.AllocsPerRun(20, func() {
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%g allocations", n)
	}
	if len(b) > 1500 {
		t.Errorf("%d bytes for 1,000 latencies", len(b))
	}
	t.Logf("%d bytes for 1,000 latencies", len(b))
}

func FuzzWire(f *testing.F) {
	var h Hist
	f.Add([]byte{1, 0})
	h.RecordN(5, 3)
	h.Record(math.MaxInt64)
	b, _ := h.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again Hist
		if h.UnmarshalBinary(b) != nil {
			if h != (Hist{}) {
				t.Fatal("a refused one left something behind")
			}
			return
		}
		h.Quantile(.5)
		out, _ := h.AppendBinary(nil)
		if err := again.UnmarshalBinary(out); err != nil || again != h {
			t.Fatalf("does not come back: %v", err)
		}
		again.Merge(&h)
		again.Reset()
		if again != (Hist{}) {
			t.Fatal("a bucket lies outside of what is in use")
		}
	})
}
