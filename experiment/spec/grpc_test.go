package spec

import (
	"strings"
	"testing"
	"time"

	"ceiling/internal/secret"
)

func TestParseMethod(t *testing.T) {
	for text, want := range map[string]string{
		"pkg.Service/Method": "/pkg.Service/Method", "/pkg.Service/Method": "/pkg.Service/Method", "pkg.Service.Method": "/pkg.Service/Method",
		"Service/Method": "/Service/Method", "a_1.B2/C": "/a_1.B2/C",
		"": "", "Method": "", "pkg.Service/": "", "/Method": "", "pkg..Service/M": "", "pkg.Service/Method/x": "", "pkg.Service/Me thod": "",
		"1pkg.S/M": "", "pkg.Service/Method?x=1": "", "http://h/pkg.S/M": "", "pkg.S/größe": "",
	} {
		if got, err := ParseMethod(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
}

// FuzzParseMethod: what is accepted is a path of two names, and is itself accepted again.
func FuzzParseMethod(f *testing.F) {
	f.Add("pkg.Service/Method")
	f.Add("pkg.Service.Method")
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ParseMethod(text)
		if err != nil {
			return
		}
		if strings.Count(path, "/") != 2 || strings.ContainsAny(path, " ?#%\n") {
			t.Errorf("%q is %q", text, path)
		}
		if again, err := ParseMethod(path); err != nil || again != path {
			t.Errorf("%q is %q, and that %q %v", text, path, again, err)
		}
	})
}

// call is a checked spec of one.
func call() Spec {
	return Spec{
		Targets: []Target{{Method: "POST", URL: "http://h/a.B/C", Weight: 1}}, Connections: 1, Pipelining: 1, Duration: time.Second,
		Timeout: time.Second, Engine: EngineAuto, Wire: Wire{GRPC: &GRPC{}, Dial: Dial{HTTP: HTTP2}},
	}
}

func TestCheckGRPC(t *testing.T) {
	s := call()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"version": {func(s *Spec) { s.HTTP = "" }, "leave --http out"},
		"HTTP/3":  {func(s *Spec) { s.HTTP, s.Targets[0].URL = HTTP3, "https://h/a.B/C" }, "leave --http out"},
		"expect":  {func(s *Spec) { s.Expect = Expect{Statuses: []StatusRange{{200, 299}}} }, "--expect: it takes HTTP statuses"},
		"events":  {func(s *Spec) { s.Kind = Events }, "over HTTP/1.1"},
		"path":    {func(s *Spec) { s.Targets[0].URL = "http://h/read" }, "does not call a gRPC method"},
		"method":  {func(s *Spec) { s.Targets[0].Method = "PUT" }, "does not call a gRPC method"},
		"header":  {func(s *Spec) { s.Targets[0].Header = []Field{{"Grpc-Timeout", "1S"}} }, "header Grpc-Timeout: gRPC says what it is"},
	} {
		s := call()
		k.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: %v, want %q", name, err, k.want)
		}
	}
}

func TestTargetCall(t *testing.T) {
	for _, k := range []struct{ method, url, want string }{
		{"", "http://h:1", "http://h:1/a.B/C"}, {"GET", "http://h:1/", "http://h:1/a.B/C"}, {"POST", "h:1/x.Y/Z", "h:1/x.Y/Z"},
		{"PUT", "http://h:1", ""}, {"", "http://h:1/read", ""}, {"", "http://h:1/?x", ""},
	} {
		target := Target{Method: k.method, URL: k.url}
		if err := target.Call("/a.B/C"); (err == nil) != (k.want != "") || err == nil && (target.URL != k.want || target.Method != "POST") {
			t.Errorf("%s %s: %s %s %v", k.method, k.url, target.Method, target.URL, err)
		}
	}
}

// TestGRPCStatus: names and codes are those of gRPC's own list (statuscodes.md).
func TestGRPCStatus(t *testing.T) {
	s := call()
	for code, want := range map[int]string{0: "OK", 1: "CANCELLED", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 14: "UNAVAILABLE", 16: "UNAUTHENTICATED",
		17: "17", -1: "-1"} {
		if got := s.StatusName(code); got != want || s.Expects(code) != (code == 0) {
			t.Errorf("%d is %s, expected %v", code, got, s.Expects(code))
		}
	}
	s.GRPC = nil
	if s.StatusName(404) != "404" || s.Expects(404) || !s.Expects(200) {
		t.Error("HTTP's statuses are their digits")
	}
}

// TestDescriptorsAreKeptOnce: the record of a run names the file, that of a plan has it.
func TestDescriptorsAreKeptOnce(t *testing.T) {
	s := call()
	s.GRPC = &GRPC{Proto: "a.proto", Descriptors: []byte("x")}
	if c := s.Concealed(secret.Plain()); c.GRPC.Proto != "a.proto" || c.GRPC.Descriptors != nil || s.GRPC.Descriptors == nil {
		t.Errorf("%+v of %+v", c.GRPC, s.GRPC)
	}
}
