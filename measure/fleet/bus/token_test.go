//go:build linux

package bus

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func someToken(t testing.TB, bed string) Token {
	t.Helper()
	s, err := newState(bed)
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.newToken(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestToken(t *testing.T) {
	want := someToken(t, "lab-7")
	s := want.String()
	for _, form := range []string{s, "  " + s + "\n"} {
		if got, err := ParseToken(form); err != nil || got != want {
			t.Fatalf("%q is read as %+v, %v", form, got, err)
		}
	}
	check := func(s, want string) {
		t.Helper()
		_, err := ParseToken(s)
		if !errors.Is(err, ErrTokenOver) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
		if err != nil && len(s) > 40 && strings.Contains(err.Error(), s[20:40]) {
			t.Errorf("%v: tells the token", err)
		}
	}
	for n := 1; n < len(s); n++ {
		check(s[:n], "cut off")
	}
	for i := len(tokenPrefix); i < len(s); i++ {
		c := byte('A')
		if s[i] == c {
			c = 'B'
		}
		changed := s[:i] + string(c) + s[i+1:]
		if got, err := ParseToken(changed); err == nil { // the last character of a part has unused bits
			got.JWT, got.Seed = want.JWT, want.Seed
			if got != want {
				t.Errorf("%q says something else: %+v", changed, got)
			}
			continue
		}
		check(changed, "changed")
	}
	check("", "empty")
	check("token", "does not begin with")
	check(s+"AAAA", "changed")
	check(s[:50]+" "+s[50:], "changed")
	check(tokenPrefix+"AgNsYWI", "another version")
	check(tokenPrefix+someToken(t, "lab-7").Seed+"."+want.JWT, "changed")
	check(someToken(t, "a.b>").String(), "test bed")
}

func FuzzParseToken(f *testing.F) {
	f.Add(someToken(f, "lab").String())
	f.Add(someToken(f, strings.Repeat("z", 32)).String())
	f.Add("ceiling-")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err == nil && token.String() != strings.TrimSpace(s) {
			t.Errorf("%q is read as %q", s, token.String())
		}
	})
}
