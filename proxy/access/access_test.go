package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"ceiling/internal/needs"
)

func TestNetworks(t *testing.T) {
	p := netip.MustParsePrefix
	n := NewNetworks([]netip.Prefix{p("10.0.0.0/8"), p("10.1.1.1/32"), p("2001:db8::/32")}, []netip.Prefix{p("10.1.0.0/16"), p("2001:db8::/32")})
	for text, want := range map[string]bool{
		"10.2.0.1": true, "10.1.0.1": false, "10.1.1.1": true, "11.0.0.1": false, "::ffff:10.2.0.1": true,
		"2001:db8::1": false, // of equal prefixes the denied one
	} {
		if got := n.Admits(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if n.Admits(netip.Addr{}) || !NewNetworks(nil, []netip.Prefix{p("10.0.0.0/8")}).Admits(netip.Addr{}) {
		t.Error("a client over a unix socket is in no network")
	}
	if NewNetworks(nil, []netip.Prefix{p("0.0.0.0/0"), p("::/0")}).Admits(netip.Addr{}) {
		t.Error("a client over a unix socket came in where all are denied")
	}
}

func TestPasswords(t *testing.T) {
	hash := func(password string) string {
		h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		return string(h)
	}
	long := strings.Repeat("p", 72)
	p := NewPasswords(map[string]string{"a": hash("x"), "b": strings.Replace(hash("y"), "$2a$", "$2y$", 1), "c": hash(long)})
	for _, w := range []struct {
		user, password string
		right          bool
	}{{"a", "x", true}, {"a", "y", false}, {"b", "y", true}, {"d", "x", false}, {"d", "y", false}, {"c", long + "more", true}, {"a", "", false}} {
		for range 2 {
			got, err := p.Check(t.Context(), netip.Addr{}, []byte(w.user), []byte(w.password))
			if err != nil || got != w.right || p.Known([]byte(w.user), []byte(w.password)) != w.right {
				t.Errorf("%s %s: %t %v, known %t", w.user, w.password, got, err, !w.right)
			}
		}
	}
	if p.Known([]byte("b"), []byte("x")) {
		t.Error("another's password is known")
	}
	for range cap(p.turns) {
		p.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Check(ctx, netip.Addr{}, []byte("a"), []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("with nothing free: %v", err)
	}
	for range cap(p.turns) {
		<-p.turns
	}
	// What is right by the time of its turn is not hashed again: that hash could not be right.
	p.users["a"] = nil
	if right, err := p.Check(t.Context(), netip.Addr{}, []byte("a"), []byte("x")); !right || err != nil {
		t.Errorf("known in the meantime: %t %v", right, err)
	}
	// An address has a bounded queue, and another one its own.
	one, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for range waitingMost {
		q := p.join(one)
		defer p.part(one, q)
	}
	if _, err := p.Check(t.Context(), one, []byte("a"), []byte("x")); err != ErrCrowded {
		t.Errorf("in a full queue: %v", err)
	}
	if right, err := p.Check(t.Context(), other, []byte("a"), []byte("x")); !right || err != nil || len(p.queues) != 1 {
		t.Errorf("of another address: %t %v, %d queues", right, err, len(p.queues))
	}
}

func TestCredentials(t *testing.T) {
	for field, want := range map[string]string{
		"Basic YTpi": "a:b", "basic  YTpi": "a:b", "BASIC YTpiOmM=": "a:b:c", "Basic Og==": ":", "Basic YQ==": "", "Basic": "", "": "",
		"Bearer YTpi": "", "Basic YTpi!": "",
	} {
		user, password, ok := Credentials([]byte(field))
		if got := string(user) + ":" + string(password); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %t", field, got, ok)
		}
	}
}

func TestCORS(t *testing.T) {
	o := NewCORS([]string{"https://A.example"}, nil, nil, nil, false, time.Minute)
	if got := string(o.Lines(nil, []byte("https://a.example"))); got != "Access-Control-Allow-Origin: https://a.example\r\nVary: Origin\r\n" {
		t.Errorf("%q", got)
	}
	if got := string(o.Lines(nil, []byte("https://b.example"))); got != "Vary: Origin\r\n" || o.Allows([]byte("null")) {
		t.Errorf("%q", got)
	}
	first, second := string(o.Preflight([]byte("x-a"))), string(o.Preflight([]byte("x-b")))
	if !strings.HasSuffix(first, "Access-Control-Allow-Headers: x-a\r\n") || strings.Contains(second, "x-a") {
		t.Errorf("%q, then %q", first, second)
	}
}

func TestForward(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-User", r.Header.Get("X-Ask"))
		w.WriteHeader(map[string]int{"in": 204, "out": 401}[r.Header.Get("X-Ask")])
	}))
	defer s.Close()
	f := NewForward(s.URL, []Copied{CopiedOf("x-user"), CopiedOf("X-User>X-Alias")}, time.Second)
	a, err := f.Ask(t.Context(), http.Header{"X-Ask": {"in"}})
	if err != nil || a.Status != 0 || string(a.Lines) != "x-user: in\r\nX-Alias: in\r\n" {
		t.Errorf("%+v %v", a, err)
	}
	a, err = f.Ask(t.Context(), http.Header{"X-Ask": {"out"}})
	if err != nil || a.Status != 401 || !strings.Contains(string(a.Lines), "X-User: out\r\n") || strings.Contains(string(a.Lines), "Content-Length") {
		t.Errorf("%+v %v", a, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := f.Ask(ctx, http.Header{}); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// TestUnknownNames: time does not tell which names exist.
func TestUnknownNames(t *testing.T) {
	needs.Time(t)
	h, err := bcrypt.GenerateFromPassword([]byte("x"), 9)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPasswords(map[string]string{"alice": string(h)})
	took := func(user string) time.Duration {
		began := time.Now()
		if right, err := p.Check(t.Context(), netip.Addr{}, []byte(user), []byte("wrong")); right || err != nil {
			t.Errorf("%s: %t %v", user, right, err)
		}
		return time.Since(began)
	}
	known, unknown := time.Hour, time.Duration(0)
	for range 3 {
		known, unknown = min(known, took("alice")), max(unknown, took("bob"))
	}
	if unknown < known/4 {
		t.Errorf("a name that exists takes %s, another %s", known, unknown)
	}
}
