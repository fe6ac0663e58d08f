//go:build linux

package bus

import (
	"crypto/ed25519"
	"reflect"
	"strings"
	"testing"
)

func someToken(bed string) Token {
	t := Token{Bed: bed, Key: make(ed25519.PublicKey, ed25519.PublicKeySize)}
	for i := range t.Authority {
		t.Authority[i], t.Key[i], t.Secret[i] = byte(i), byte(i+32), byte(i+64)
	}
	return t
}

func TestToken(t *testing.T) {
	want := someToken("lab-7")
	s := want.String()
	for _, form := range []string{s, "  " + s + "\n"} {
		if got, err := ParseToken(form); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %+v, %v", form, got, err)
		}
	}
	check := func(s, want string) {
		t.Helper()
		_, err := ParseToken(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
		if err != nil && len(s) > 40 && strings.Contains(err.Error(), s[20:40]) {
			t.Errorf("%v: tells the token", err)
		}
	}
	for n := 1; n < len(s); n++ {
		check(s[:n], "cut off")
	}
	for i := len(tokenPrefix) + 8; i < len(s)-1; i++ { // behind the version and the length
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		check(s[:i]+string(c)+s[i+1:], "a wrong character")
	}
	check("", "empty")
	check("token", "does not begin with")
	check(s+"AAAA", "something follows")
	check(s[:50]+" "+s[50:], "character at 51")
	check(s+strings.Repeat("A", 600), "characters")
	check(tokenPrefix+"Ag", "version 2")
	bad := want
	bad.Bed = "a.b>"
	check(bad.String(), "test bed")
}

func FuzzParseToken(f *testing.F) {
	f.Add(someToken("lab").String())
	f.Add(someToken(strings.Repeat("z", 32)).String())
	f.Add("ceiling-")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err == nil && token.String() != strings.TrimSpace(s) {
			t.Errorf("%q is read as %q", s, token.String())
		}
	})
}
