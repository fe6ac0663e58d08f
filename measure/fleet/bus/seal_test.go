//go:build linux

package bus

import (
	"crypto/ed25519"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func pair() (Signer, *Opener, *time.Duration) {
	s := Signer{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	now := new(time.Duration)
	*now = time.Minute
	return s, &Opener{Key: s.Public(), Session: Nonce{7}, Clock: func() time.Duration { return *now }}, now
}

func TestSealedCommands(t *testing.T) {
	s, o, now := pair()
	seal := func(e Envelope) []byte {
		b, err := s.Seal(e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	check := func(what string, b []byte, want error) {
		t.Helper()
		before := o.Last()
		e, err := o.Open(b)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err != nil && (o.Last() != before || !reflect.DeepEqual(e, Envelope{})) {
			t.Errorf("%s left a trace", what)
		}
	}
	good := Envelope{Nonce{7}, 5, time.Minute, "run-1", "start", []byte("body")}
	sealed := seal(good)
	for i := range sealed { // one bit anywhere
		changed := append([]byte(nil), sealed...)
		changed[i] ^= 1
		if _, err := o.Open(changed); err == nil {
			t.Fatalf("byte %d changed and opened", i)
		}
	}
	for n := range sealed {
		if _, err := o.Open(sealed[:n]); err == nil {
			t.Fatalf("%d of %d bytes opened", n, len(sealed))
		}
	}
	if e, err := o.Open(sealed); err != nil || !reflect.DeepEqual(e, good) {
		t.Fatalf("opened %+v, %v", e, err)
	}
	check("a replay", sealed, ErrReplay)
	older := good
	older.Sequence = 4
	check("an older sequence", seal(older), ErrReplay)
	other := good
	other.Session, other.Sequence = Nonce{8}, 6
	check("another session", seal(other), ErrSession)
	next := good
	next.Sequence = 6
	*now = time.Minute + MaxAge + 1
	check("too old", seal(next), ErrExpired)
	*now = time.Minute - MaxAhead - 1
	check("from the future", seal(next), ErrExpired)
	next.Issued = -1 << 63
	check("from the beginning of time", seal(next), ErrExpired)
	*now, next.Issued = time.Minute, time.Minute
	stranger := Signer{ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize)))}
	b, err := stranger.Seal(next)
	if err != nil {
		t.Fatal(err)
	}
	check("another key", b, ErrSignature)
	check("nothing", nil, ErrMalformed)
	check("text", []byte(strings.Repeat("GET / HTTP/1.1\r\n", 20)), ErrMalformed)
	check("the next", seal(next), nil)
	if _, err := (&Opener{Clock: o.Clock}).Open(sealed); !errors.Is(err, ErrSignature) {
		t.Errorf("an opener without a key: %v", err)
	}
	for what, e := range map[string]Envelope{
		"no verb": {}, "long verb": {Verb: strings.Repeat("v", maxVerb+1)},
		"long run": {Verb: "v", Run: strings.Repeat("r", maxRun+1)}, "long body": {Verb: "v", Body: make([]byte, MaxBody+1)},
	} {
		if _, err := s.Seal(e); err == nil {
			t.Errorf("%s was sealed", what)
		}
	}
}

// FuzzOpen gives whatever comes a true signature, so that the decoder behind
// it is reached too.
func FuzzOpen(f *testing.F) {
	s, _, _ := pair()
	b, err := s.Seal(Envelope{Nonce{7}, 1, time.Minute, "r", "stop", []byte("why")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(sealMark))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, o, _ := pair()
		if e, err := o.Open(b); err == nil && e.Verb == "" {
			t.Error("opened without a verb")
		}
		b = append([]byte(sealMark), b...)
		b = append(b, ed25519.Sign(s.key, b)...)
		_, o, _ = pair()
		e, err := o.Open(b)
		if err != nil {
			return
		}
		again, err := s.Seal(e)
		if err != nil || string(again) != string(b) {
			t.Errorf("%x opened as %+v, which seals as %x, %v", b, e, again, err)
		}
	})
}
