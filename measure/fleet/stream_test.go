//go:build linux

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestStreamIsExact sends frames of many sizes and takes them again, with
// messages that come twice.
func TestStreamIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var out outlet
	var want, got []string
	var in frameReader
	var number uint64
	take := func(times int) {
		t.Helper()
		chunk := out.message()
		for range times {
			if err := in.take(number, chunk, func(kind byte, body []byte) error {
				got = append(got, string(kind)+string(body))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		number++
	}
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
		take(1 + r.IntN(2))
	}
	for len(out.waiting) > 0 {
		take(1)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d frames came of %d, or others", len(got), len(want))
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
	if err := in.take(0, []byte{'t', 0xff, 0xff, 0xff, 0xff}, nothing); err == nil {
		t.Error("a frame of gigabytes was waited for")
	}
	in = frameReader{}
	if err := in.take(0, []byte{'e', 0, 0, 0, 0, 't', 0, 0, 0, 0}, nothing); err == nil || !strings.Contains(err.Error(), "follows the end") {
		t.Errorf("something behind the end: %v", err)
	}
	in = frameReader{}
	if err := in.take(0, []byte{'x', 0, 0, 0, 0}, func(byte, []byte) error { return fmt.Errorf("no") }); err == nil {
		t.Error("what was refused was taken")
	}
	s := newSession(life{}, order{})
	s.tellProfile(make([]byte, frameMost+1), "a1")
	if got := string(s.out.waiting); s.stopped != "" || !strings.Contains(got, "too much to be sent") {
		t.Errorf("a profile that is too large: %q, %.200s", s.stopped, got)
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
