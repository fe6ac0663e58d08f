package hpack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// all decodes a block; the fields as one text.
func all(d *Decoder, block []byte) (string, error) {
	var b strings.Builder
	d.Begin(block)
	for {
		f, ok, err := d.Next()
		if err != nil || !ok {
			return b.String(), err
		}
		fmt.Fprintf(&b, "%q=%q %v\n", f.Name, f.Value, f.Sensitive)
	}
}

// TestEncodeIsRead holds what we write against another decoder.
func TestEncodeIsRead(t *testing.T) {
	fields := [][2]string{
		{":method", "GET"}, {":method", "PUT"}, {":path", "/"}, {":path", "/read?x=1"}, {":scheme", "https"}, {":authority", "host:8080"},
		{":status", "200"}, {":status", "418"}, {"accept-encoding", "gzip, deflate"}, {"accept", ""}, {"x-own", "a value"},
		{"content-length", "16"}, {"cookie", strings.Repeat("long; ", 100)}, {"binary", "\x00\xff\x80\x01"}, {"", ""},
		{"every", string(everyByte())}, {"x", strings.Repeat("~", 127)}, {"y", strings.Repeat("~", 128)},
	}
	for _, sensitive := range []bool{false, true} {
		var block []byte
		want := ""
		for _, f := range fields {
			block = AppendField(block, f[0], f[1], sensitive)
			block = AppendField(block, []byte(f[0]), []byte(f[1]), sensitive)
			want += fmt.Sprintf("%q=%q %v\n", f[0], f[1], sensitive) + fmt.Sprintf("%q=%q %v\n", f[0], f[1], sensitive)
		}
		got := ""
		peer := hpack.NewDecoder(0, func(f hpack.HeaderField) { got += fmt.Sprintf("%q=%q %v\n", f.Name, f.Value, f.Sensitive) })
		if _, err := peer.Write(block); err != nil || peer.Close() != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("read by another decoder:\n%s\nwritten:\n%s", got, want)
		}
		var own Decoder
		if got, err := all(&own, block); err != nil || got != want {
			t.Errorf("read by our own (%v):\n%s\nwritten:\n%s", err, got, want)
		}
	}
	var own Decoder
	if got, err := all(&own, AppendField([]byte{flagSize}, ":status", "200", false)); err != nil || got != "\":status\"=\"200\" false\n" {
		t.Errorf("after a change to size 0: %q, %v", got, err)
	}
}

func everyByte() (b []byte) {
	for i := range 256 {
		b = append(b, byte(i))
	}
	return b
}

// TestDecodeWithTable reads a hundred blocks of another encoder, whose table changes
// its size and drops entries meanwhile.
func TestDecodeWithTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []uint32{0, 64, 200, 4096, 65536} {
		var wire bytes.Buffer
		peer := hpack.NewEncoder(&wire)
		peer.SetMaxDynamicTableSizeLimit(limit)
		if limit > 4096 {
			peer.SetMaxDynamicTableSize(limit)
		}
		var own Decoder
		own.SetLimit(limit)
		for n := range 1000 {
			wire.Reset()
			want := ""
			if random.IntN(50) == 0 {
				peer.SetMaxDynamicTableSize(random.Uint32N(limit + 1))
			}
			for range random.IntN(8) {
				f := hpack.HeaderField{
					Name: fmt.Sprint("name-", random.IntN(30)), Value: strings.Repeat("v", random.IntN(90)), Sensitive: random.IntN(9) == 0,
				}
				if random.IntN(3) == 0 {
					f = hpack.HeaderField{Name: ":status", Value: fmt.Sprint(100 + random.IntN(500))}
				}
				if err := peer.WriteField(f); err != nil {
					t.Fatal(err)
				}
				want += fmt.Sprintf("%q=%q %v\n", f.Name, f.Value, f.Sensitive)
			}
			if got, err := all(&own, wire.Bytes()); err != nil || got != want {
				t.Fatalf("table of %d, block %d: %v\n%s\nwritten:\n%s", limit, n, err, got, want)
			}
		}
		if size := cap(own.table.text); size > 4*int(limit)+256 {
			t.Errorf("a table of %d bytes has come to hold %d", limit, size)
		}
	}
}

// TestEffect: what a block that is seen again may be taken for.
func TestEffect(t *testing.T) {
	for _, c := range []struct {
		block string
		want  Effect
	}{
		{"\x88\x00\x01a\x01b", Stateless},
		{"\x88\x40\x01a\x01b", Stateful},
		{"\xbe", Stateful},
		{"\x7e\x01c", Stateful},
		{"\x20\x88", Stateful},
		{"\x88\x40\x01a\x01b", Indexing}, // there is no table any more
		{"\x88", Stateless},
	} {
		var d Decoder
		d.SetLimit(0)
		if c.want == Indexing {
			c.block = "\x20" + c.block
		}
		blocks := []string{"\x40\x01y\x01z", c.block}
		if c.want == Indexing {
			blocks = []string{"\x20\x88", c.block[1:]}
		}
		for _, block := range blocks {
			if _, err := all(&d, []byte(block)); err != nil {
				t.Fatalf("%x: %v", block, err)
			}
		}
		if d.Effect() != c.want || d.HasTable() != (c.block[0] != 0x20) {
			t.Errorf("%x: effect %d, want %d; a table: %t", c.block, d.Effect(), c.want, d.HasTable())
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		block string
		err   error
	}{
		"dynamic entry without a table": {"\xbe", ErrIndex},
		"dynamic name without a table":  {"\x7f\x00\x01a", ErrIndex},
		"index 0":                       {"\x80", ErrIndex},
		"a name cut short":              {"\x00\x05ab", ErrTruncated},
		"no value":                      {"\x00\x01a", ErrTruncated},
		"an integer cut short":          {"\xff\x80", ErrTruncated},
		"an endless integer":            {"\xff\x80\x80\x80\x80\x80\x80\x80\x01", ErrInteger},
		"an integer over 2^31":          {"\xff\xff\xff\xff\xff\x7f", ErrInteger},
		"EOS":                           {"\x00\x84\xff\xff\xff\xff\x00", ErrHuffman},
		"padding of eight bits":         {"\x00\x82\x1f\xff\x00", ErrHuffman},
		"padding of zeros":              {"\x00\x81\x18\x00", ErrHuffman},
		"a larger table":                {"\x3f\xe1\x1f", ErrTableSize},
		"a size behind a field":         {"\x88\x20", ErrTableSize},
	} {
		var d Decoder
		if _, err := all(&d, []byte(c.block)); err != c.err {
			t.Errorf("%s: %v, expected %v", name, err, c.err)
		}
	}
}

// FuzzDecode holds the decoder against another one. Where both read a block they read
// the same; ours alone bounds integers, theirs takes a string of Huffman's code for
// what it does not hold.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x20\x88\x61\x96\xdf\x69\x7e\x94\x0b\xaa\x43\x5d\x8a\x08\x01\x7d\x40\x3f\x71\xb6\x6e\x09\xf5\x31\x68\xdf"), uint16(0))
	f.Add([]byte("\x40\x01a\x01b\xbe\xbe"), uint16(4096))
	f.Fuzz(func(t *testing.T, block []byte, limit uint16) {
		limit %= 4097
		want := ""
		peer := hpack.NewDecoder(uint32(limit), func(f hpack.HeaderField) { want += fmt.Sprintf("%q=%q %v\n", f.Name, f.Value, f.Sensitive) })
		peer.SetMaxDynamicTableSize(defaultTableSize) // until the block says otherwise
		peer.SetAllowedMaxDynamicTableSize(defaultTableSize)
		_, theirs := peer.Write(block)
		if theirs == nil {
			theirs = peer.Close()
		}
		var d Decoder
		d.SetLimit(uint32(limit))
		got, ours := all(&d, block)
		if ours == nil && (theirs != nil || got != want) {
			t.Errorf("%x: %q, another decoder %q, %v", block, got, want, theirs)
		}
		if theirs == nil && ours != nil && ours != ErrInteger && ours != ErrTableSize {
			t.Errorf("%x: %v, another decoder %q", block, ours, want)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	var wire bytes.Buffer
	peer := hpack.NewEncoder(&wire)
	var d Decoder
	d.SetLimit(4096)
	dst := make([]byte, 0, 4096)
	value := make([]byte, 60)
	name := []byte("content-type")
	turn := func() {
		wire.Reset()
		value[0]++
		if err := peer.WriteField(hpack.HeaderField{Name: "x-changing", Value: string(value)}); err != nil {
			t.Fatal(err)
		}
		d.Begin(wire.Bytes())
		for {
			f, ok, err := d.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			dst = AppendField(dst[:0], f.Name, f.Value, false)
		}
		dst = AppendField(dst, name, value, false)
	}
	for range 1000 {
		turn()
	}
	block := AppendField(nil, "x-changing", strings.Repeat("v", 60), false)
	block[0] = flagIndex
	if n := testing.AllocsPerRun(1000, func() {
		d.Begin(block)
		for ok, err := true, error(nil); ok; {
			var f Field
			if f, ok, err = d.Next(); err != nil {
				t.Fatal(err)
			}
			dst = AppendField(dst[:0], f.Name, f.Value, false)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a block", n)
	}
}
