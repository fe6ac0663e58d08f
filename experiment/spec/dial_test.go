package spec

import (
	"strings"
	"testing"
)

// TestAddressOfDial: what is connected to, of a URL and what is said beside it.
func TestAddressOfDial(t *testing.T) {
	for _, k := range []struct {
		url     string
		resolve []string
		unix    string
		at      string // as net.Dial takes it
	}{
		{"https://a.test/x", nil, "", "a.test:443"},
		{"https://a.test/x", []string{"a.test:443:127.0.0.1"}, "", "127.0.0.1:443"},
		{"https://A.test/x", []string{"a.TEST:443:[::1],10.0.0.1"}, "", "[::1]:443"},
		{"https://a.test/x", []string{"b.test:443:10.0.0.2", "*:443:10.0.0.1"}, "", "10.0.0.1:443"},
		{"http://a.test:8080/x", []string{"a.test:80:10.0.0.2"}, "", "a.test:8080"},
		{"http://[::1]:8080/x", []string{"[::1]:8080:::2"}, "", "[::2]:8080"},
		{"http://10.0.0.1/x", []string{"10.0.0.1:80:10.0.0.2"}, "", "10.0.0.2:80"},
		{"https://a.test/x", nil, "/run/s", "/run/s"},
		{"unix:/run/t:/x", nil, "", "/run/t"},
	} {
		d := Dial{Resolve: k.resolve, Unix: k.unix}
		to, err := d.Address(k.url)
		if err != nil || to.String() != k.at {
			t.Errorf("%s with %v %s: %s, %v", k.url, k.resolve, k.unix, to, err)
		}
		if strings.Contains(k.url, "a.test") && to.Host != "a.test" || to.TLS != strings.HasPrefix(k.url, "https") {
			t.Errorf("%s is of %q, TLS %v", k.url, to.Host, to.TLS)
		}
	}
}

// TestDialIsChecked: each mistake is named with what would mend it.
func TestDialIsChecked(t *testing.T) {
	for want, d := range map[string]Dial{
		"no port":                   {Resolve: []string{"a.test"}},
		"no address":                {Resolve: []string{"a.test:80"}},
		`invalid address "b"`:       {Resolve: []string{"a.test:80:b"}},
		"invalid host or port":      {Resolve: []string{"a.test:x:10.0.0.1"}},
		"it is not for a.test:80":   {Resolve: []string{"a.test:443:10.0.0.1"}},
		"a socket has no address":   {Resolve: []string{"a.test:80:10.0.0.1"}, Unix: "/run/s"},
		"is not absolute":           {Unix: "s"},
		"a unix socket has none":    {Unix: "/run/s", SourceIPs: []string{"127.0.0.1"}},
		"are too many":              {Resolve: make([]string, resolveMax+1)},
		"example.com:443:127.0.0.1": {Resolve: []string{":80:10.0.0.1"}},
	} {
		s := good()
		s.Targets[0].URL, s.Dial = "http://a.test/", d
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", d, err, want)
		}
	}
	s := good()
	s.Targets[0].URL, s.Unix = "unix:/run/t:/x", "/run/s"
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "the URL is one of a socket already") {
		t.Error(err)
	}
	e := Experiment{Servers: []Server{{URL: "https://a.test"}, {Serve: "x {addr}"}}}
	e.Load.Resolve = []string{"a.test:80:10.0.0.1"}
	if err := e.checkDial(); err == nil || !strings.Contains(err.Error(), "no server has this host and port") {
		t.Error(err)
	}
	e.Load.Resolve[0] = "a.test:443:10.0.0.1"
	if err := e.checkDial(); err != nil {
		t.Error(err)
	}
	if own := e.Load.For("http://127.0.0.1:1"); len(own.Resolve) != 0 {
		t.Errorf("another server has %v", own.Resolve)
	}
}

// TestOffer: names of IANA and OpenSSL are the same suites, and what cannot be chosen
// is said so.
func TestOffer(t *testing.T) {
	o, err := (&TLS{Ciphers: "ECDHE-RSA-AES128-GCM-SHA256:TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,AES256-SHA,ECDHE-RSA-AES128-SHA256"}).Offer()
	want := []uint16{0xc02f, 0xcca8, 0x0035, 0xc027}
	if err != nil || len(o.Suites) != len(want) {
		t.Fatal(o, err)
	}
	for i := range want {
		if o.Suites[i] != want[i] {
			t.Errorf("%x, want %x", o.Suites[i], want[i])
		}
	}
	for want, bad := range map[string]TLS{
		"--tls-version: \"1.1\" is not supported": {Version: "1.1"},
		"the suites of TLS 1.3 cannot be chosen":  {Ciphers: "TLS_AES_128_GCM_SHA256"},
		"--ciphers: \"X\" is not supported":       {Ciphers: "X"},
		"--curves: \"P-1\" is not known here":     {Curves: "P-1"},
		"they are for TLS 1.2, and --tls-version": {Version: "1.3", Ciphers: "ECDHE-RSA-AES128-GCM-SHA256"},
	} {
		if _, err := bad.Offer(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", bad, err, want)
		}
	}
}
