//go:build linux

package fleet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ceiling/record"
)

// TestStreamIsExact sends frames of many sizes and takes them again, with
// messages that come twice.
func TestStreamIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var out outlet
	var want, got []string
	var in frameReader
	var number uint64
	for range 200 {
		for range r.IntN(5) {
			body := make([]byte, r.IntN(3000))
			if r.IntN(50) == 0 {
				body = make([]byte, chunkMost+r.IntN(3*chunkMost))
			}
			for i := range body {
				body[i] = byte(r.Uint32())
			}
			want = append(want, "t"+string(body))
			if err := out.frame(frameTally, body); err != nil {
				t.Fatal(err)
			}
		}
		chunk := out.message()
		if r.IntN(4) == 0 {
			out.undo(chunk)
			chunk = out.message()
		}
		for range 1 + r.IntN(2) {
			if err := in.take(number, chunk, func(kind byte, body []byte) error {
				got = append(got, string(kind)+string(body))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		number++
	}
	for len(out.waiting) > 0 {
		chunk := out.message()
		if err := in.take(number, chunk, func(kind byte, body []byte) error {
			got = append(got, string(kind)+string(body))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		number++
	}
	if len(got) != len(want) {
		t.Fatalf("%d frames came of %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("frame %d is another", i)
		}
	}
}

func TestStreamRefuses(t *testing.T) {
	nothing := func(byte, []byte) error { return nil }
	var in frameReader
	if err := in.take(1, nil, nothing); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("a message is missing: %v", err)
	}
	if err := in.take(0, nil, nothing); err == nil {
		t.Error("it goes on after an error")
	}
	in = frameReader{}
	if err := in.take(0, []byte{'t', 0xff, 0xff, 0xff, 0xff, 0x7f}, nothing); err == nil {
		t.Error("a frame of gigabytes was waited for")
	}
	in = frameReader{}
	if err := in.take(0, []byte{'e', 0, 't', 0}, nothing); err == nil || !strings.Contains(err.Error(), "follows the end") {
		t.Errorf("something behind the end: %v", err)
	}
	in = frameReader{}
	if err := in.take(0, []byte{'x', 0}, func(byte, []byte) error { return fmt.Errorf("no") }); err == nil {
		t.Error("what was refused was taken")
	}
	var out outlet
	if err := out.frame('t', make([]byte, frameMost+1)); err == nil {
		t.Error("a frame that is too large was sent")
	}
	for range backlogMost/frameMost + 1 {
		if err := out.frame('t', make([]byte, frameMost)); err != nil {
			if strings.Contains(err.Error(), "the driver does not receive them") {
				return
			}
			t.Fatal(err)
		}
	}
	t.Error("what waits has no bound")
}

// FuzzStream: whatever comes is taken or refused, and nothing is held but what
// came.
func FuzzStream(f *testing.F) {
	var out outlet
	_ = out.object(frameReady, readiness{3, 4})
	_ = out.frame(frameTally, []byte{0, 1, 2, 3})
	_ = out.object(frameEnd, ending{Error: "x"})
	chunk := out.message()
	f.Add(chunk, 3)
	f.Add([]byte{'t', 0x80}, 1)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		step = 1 + int(uint(step)%64)
		var in frameReader
		var seen []byte
		for number := uint64(0); len(data) > 0; number++ {
			n := min(step, len(data))
			err := in.take(number, data[:n], func(kind byte, body []byte) error {
				seen = append(seen, body...)
				switch kind {
				case frameObserved:
					_, err := record.DecodeObserved(body)
					return err
				}
				return nil
			})
			data = data[n:]
			if err != nil {
				return
			}
		}
		if bytes.Count(seen, nil)-1 > 0 && len(in.rest) > frameMost+16 {
			t.Fatal("more is held than may come")
		}
	})
}
