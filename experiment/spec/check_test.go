package spec

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/secret"
	"ceiling/internal/unit"
)

// good is a Spec that nothing can be said against.
func good() *Spec {
	return &Spec{
		Targets:   []Target{{Method: "GET", URL: "http://localhost:8080/", Weight: 1}},
		Condition: Condition{Connections: 64, Pipelining: 1},
		Duration:  10 * time.Second,
		Timeout:   10 * time.Second,
		Settings:  Settings{Engine: EngineAuto},
	}
}

// checkCase is a Spec with one thing changed and what Check has to say to it;
// "" lets it pass.
type checkCase struct {
	name   string
	change func(*Spec)
	want   string
}

func runCheck(t *testing.T, cases []checkCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			c.change(s)
			err := s.Check()
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkError(t, c.name, err, c.want)
		})
	}
}

// ofTarget changes the only target.
func ofTarget(f func(*Target)) func(*Spec) { return func(s *Spec) { f(&s.Targets[0]) } }

func header(name, value string) func(*Spec) {
	return ofTarget(func(t *Target) { t.Header = append(t.Header, Field{name, value}) })
}

func TestCheckShape(t *testing.T) {
	runCheck(t, []checkCase{
		{"good", func(s *Spec) {}, ""},
		{"no connections", func(s *Spec) { s.Connections = 0 }, "connections: 0: must be 1–1000000; give -c 64"},
		{"too many connections", func(s *Spec) { s.Connections = ConnectionsMax + 1 }, "connections: 1000001"},
		{"most connections", func(s *Spec) { s.Connections = ConnectionsMax }, ""},
		{"negative threads", func(s *Spec) { s.Threads = -1 }, "threads: -1"},
		{"too many threads", func(s *Spec) { s.Threads, s.Connections = 1025, 2000 }, "threads: 1025"},
		{"threads without a connection", func(s *Spec) { s.Threads = 65 }, "give at most -t 64"},
		{"as many threads as connections", func(s *Spec) { s.Threads = 64 }, ""},
		{"no pipelining", func(s *Spec) { s.Pipelining = 0 }, "pipelining: 0"},
		{"too deep", func(s *Spec) { s.Pipelining = PipeliningMax + 1 }, "pipelining: 10001"},
		{"too many slots", func(s *Spec) { s.Connections, s.Pipelining = 100_000, 1000 }, "more than 10000000 in flight"},
	})
}

func TestCheckTimes(t *testing.T) {
	runCheck(t, []checkCase{
		{"nothing ends it", func(s *Spec) { s.Duration = 0 }, "set -d 10s or -n 1000"},
		{"requests end it", func(s *Spec) { s.Duration, s.Requests = 0, 1 }, ""},
		{"negative duration", func(s *Spec) { s.Duration = -1 }, "duration: -1ns is below 0; give -d 10s"},
		{"long duration", func(s *Spec) { s.Duration = DurationMax + 1 }, "duration: 168h0m0.000000001s is too long"},
		{"negative warm-up", func(s *Spec) { s.Warmup = -1 }, "warm-up: -1ns is below 0"},
		{"negative ramp", func(s *Spec) { s.ConnectRamp = -1 }, "connect ramp: -1ns"},
		{"no timeout", func(s *Spec) { s.Timeout = 0 }, "timeout: 0s is not above 0; give --timeout 10s"},
		{"long timeout", func(s *Spec) { s.Timeout = TimeoutMax + 1 }, "timeout: 1h0m0.000000001s is too long"},
	})
}

func TestCheckRate(t *testing.T) {
	rate := func(text, arrivals string) func(*Spec) {
		r, err := unit.ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		return func(s *Spec) { s.Rate, s.Arrivals = r, arrivals }
	}
	runCheck(t, []checkCase{
		{"arrivals without a rate", func(s *Spec) { s.Arrivals = Poisson }, "poisson arrivals need a rate; give one with -R 10k"},
		{"rate", rate("10k", Constant), ""},
		{"poisson", rate("1/m", Poisson), ""},
		{"ramp", rate("0:10k", Constant), ""},
		{"rate without arrivals", rate("10k", ""), `invalid --arrivals "" (use constant or poisson)`},
		{"endless ramp", func(s *Spec) { rate("0:10k", Constant)(s); s.Duration, s.Requests = 0, 10 }, "0:10k changes over the duration"},
		{"half a rate", func(s *Spec) { s.Rate.From, s.Arrivals = unit.Frequency{Count: 1, PerNs: 1e9}, Constant }, "is not above 0"},
		{"fast", func(s *Spec) {
			s.Rate.From, s.Arrivals = unit.Frequency{Count: 2, PerNs: 1}, Constant
			s.Rate.To = s.Rate.From
		}, "at most 1G per second"},
		{"rate of nothing", func(s *Spec) {
			s.Rate.From, s.Arrivals = unit.Frequency{PerNs: 1e9}, Constant
			s.Rate.To = s.Rate.From
		}, "nothing would be sent"},
	})
}

func TestCheckTargets(t *testing.T) {
	second := func(url string) func(*Spec) {
		return func(s *Spec) { s.Targets = append(s.Targets, Target{Method: "GET", URL: url, Weight: 1}) }
	}
	runCheck(t, []checkCase{
		{"no targets", func(s *Spec) { s.Targets = nil }, "targets: none given"},
		{"too many targets", func(s *Spec) { s.Targets = make([]Target, TargetsMax+1) }, "targets: 100001"},
		{"bad URL", ofTarget(func(t *Target) { t.URL = "ftp://h/" }), "unknown scheme"},
		{"the same address", second("http://LOCALHOST:8080/other"), ""},
		{"over TLS", second("https://localhost:8080/"), "target 2: https://localhost:8080 is not on the first target's address http://localhost:8080"},
		{"another port", second("http://localhost:8081/"), "target 2: http://localhost:8081 is not on the first target's address http://localhost:8080"},
		{"another host", second("http://127.0.0.1:8080/"), "target 2: http://127.0.0.1:8080"},
		{"a bad second", second("http://localhost:x/"), `target 2: URL "http://localhost:x/": bad port`},
		{"no method", ofTarget(func(t *Target) { t.Method = "" }), `method "" is not a word; give -m GET`},
		{"two methods", ofTarget(func(t *Target) { t.Method = "GET PUT" }), "is not a word"},
		{"connect", ofTarget(func(t *Target) { t.Method = "CONNECT" }), "a tunnel"},
		{"no weight", ofTarget(func(t *Target) { t.Weight = 0 }), "weight 0"},
		{"a big body", ofTarget(func(t *Target) { t.Body = make([]byte, BodyMax+1) }), "body: 16777217 bytes"},
		{"big bodies", func(s *Spec) {
			s.Targets[0].Body = make([]byte, BodyMax)
			for range 4 {
				s.Targets = append(s.Targets, s.Targets[0])
			}
		}, "targets: bodies of 83886080 bytes together"},
	})
}

func TestCheckHeader(t *testing.T) {
	runCheck(t, []checkCase{
		{"bad header", header("a b", ""), `header name "a b"`},
		{"many headers", ofTarget(func(t *Target) { t.Header = make([]Field, fieldsMax+1) }), "1001 fields"},
		{"host", header("Host", "example.com"), ""},
		{"host with a port", header("Host", "[::1]:8080"), ""},
		{"no host", header("Host", ""), ""},
		{"a blank in the host", header("Host", "a b"), `header Host: invalid host "a b": ' ' at byte 2`},
		{"a URL as host", header("Host", "http://a/"), `invalid host "http://a/": '/' at byte 6`},
		{"two hosts", func(s *Spec) { header("Host", "a")(s); header("host", "b")(s) }, "header Host is given twice"},
		{"true length", header("Content-Length", "0"), ""},
		{"wrong length", header("content-length", "5"), "header Content-Length: \"5\", but the body has 0 bytes"},
		{"coded", header("Transfer-Encoding", "gzip"), "header Transfer-Encoding"},
		{"close", header("Connection", "close"), "header Connection: \"close\"; remove it"},
		{"keep-alive", header("Connection", "Keep-Alive"), ""},
		{"upgrade", header("Upgrade", "websocket"), "header Upgrade"},
		{"expect", header("Expect", "100-continue"), "header Expect"},
	})
}

func TestCheckPipelining(t *testing.T) {
	runCheck(t, []checkCase{
		{"pipelined get", func(s *Spec) { s.Pipelining = 16 }, ""},
		{"pipelined put", func(s *Spec) { s.Pipelining, s.Targets[0].Method, s.Targets[0].Body = 16, "PUT", []byte("x") }, ""},
		{"pipelined post", func(s *Spec) { s.Pipelining, s.Targets[0].Method, s.Targets[0].Body = 16, "POST", []byte("x") },
			"pipelining: POST with a body cannot be pipelined, 16 deep here (RFC 9112 §9.3.2); give --http 2, or -p 1 and -c 1024"},
		{"pipelined patch", func(s *Spec) { s.Pipelining, s.Targets[0].Method, s.Targets[0].Body = 2, "PATCH", []byte("x") },
			"PATCH with a body"},
		{"post", func(s *Spec) { s.Targets[0].Method, s.Targets[0].Body = "POST", []byte("x") }, ""},
		{"new connections", func(s *Spec) { s.NewConnections = 1 }, ""},
		{"pipelined new connections", func(s *Spec) { s.NewConnections, s.Pipelining = 1, 2 }, "carries one request; give -p 1"},
	})
}

func TestCheckNames(t *testing.T) {
	runCheck(t, []checkCase{
		{"no engine", func(s *Spec) { s.Engine = "" }, `invalid --engine "" (use auto, uring, epoll or portable)`},
		{"pins", func(s *Spec) { s.PinGenerator, s.PinServer = "0-3", "4" }, ""},
		{"bad pin", func(s *Spec) { s.PinServer = "4-" }, `pin server: CPU list "4-"`},
		{"bad link", func(s *Spec) { s.LinkBitsPerSecond = -1 }, "link speed: -1"},
		{"no link", func(s *Spec) { s.LinkBitsPerSecond = math.NaN() }, "link speed: NaN"},
		{"pprof", func(s *Spec) { s.Pprof = "http://localhost:6060/debug/pprof/" }, ""},
		{"no pprof", func(s *Spec) { s.Pprof = "off" }, ""},
		{"bad pprof", func(s *Spec) { s.Pprof = "on:x" }, "pprof: URL"},
		{"slo", func(s *Spec) { s.SLO = SLO{{Metric: MetricRate, Limit: 1}} }, ""},
		{"bad slo", func(s *Spec) { s.SLO = SLO{{Metric: MetricRate, Limit: 1, Less: true}} }, "SLO term rate<1: a rate has a lower bound"},
	})
}

func TestSpecRoundTrip(t *testing.T) {
	s := good()
	s.Targets[0].Header = []Field{{"A", "é < &"}}
	s.Targets[0].Body = []byte{0, 0xff}
	slo, err := ParseSLO("p99<5ms")
	if err != nil {
		t.Fatal(err)
	}
	s.SLO = slo
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"rate"`) {
		t.Errorf("a closed loop has a rate in %s", text)
	}
	s.Rate, s.Arrivals = unit.Rate{From: unit.Frequency{Count: 50, PerNs: 1e9}, To: unit.Frequency{Count: 1, PerNs: 3e6}}, Poisson
	if text, err = json.Marshal(s); err != nil || !strings.Contains(string(text), `"rate":"50:1/3ms"`) {
		t.Errorf("%s, %v", text, err)
	}
	var back Spec
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, s) {
		t.Errorf("%+v, %v; want %+v", back, err, s)
	}
}

// TestLone: requests one at a time belong to a closed loop with a warm-up, and
// take a bounded part of its time.
func TestLone(t *testing.T) {
	rate := unit.Rate{From: unit.Frequency{Count: 1, PerNs: 1}, To: unit.Frequency{Count: 1, PerNs: 1}}
	for _, k := range []struct {
		of   Spec
		want time.Duration
	}{
		{Spec{}, 0},
		{Spec{Warmup: 400 * time.Millisecond}, 100 * time.Millisecond},
		{Spec{Warmup: time.Hour}, LoneMost},
		{Spec{Warmup: time.Second, Settings: Settings{NoLone: true}}, 0},
		{Spec{Warmup: time.Second, Condition: Condition{Rate: rate}}, 0},
	} {
		if got := k.of.Unloaded(); got != k.want {
			t.Errorf("%+v: %v, want %v", k.of, got, k.want)
		}
	}
	e := Experiment{Servers: []Server{{URL: "http://127.0.0.1:1"}}, Requests: []Mix{{MixRequest: MixRequest{Path: "/"}}},
		Load: Load{Settings: Settings{NoLone: true}}}
	if s, err := e.Spec("http://127.0.0.1:1", 0, &Condition{Connections: 1, Pipelining: 1}); err != nil || !s.NoLone {
		t.Errorf("of an experiment: %v, %v", s.NoLone, err)
	}
}

func TestPprofURLs(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "off": nil,
		"127.0.0.1:6060":                    {"http://127.0.0.1:6060/debug/pprof/"},
		"http://h:1/":                       {"http://h:1/debug/pprof/"},
		"http://h:1/mine/pprof":             {"http://h:1/mine/pprof"},
		"127.0.0.1:1, http://h:2/x,[::1]:3": {"http://127.0.0.1:1/debug/pprof/", "http://h:2/x", "http://[::1]:3/debug/pprof/"},
	} {
		if got := PprofURLs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if err := checkPprof("127.0.0.1:1,ftp://x"); err == nil || !strings.Contains(err.Error(), "unknown scheme") {
		t.Errorf("%v", err)
	}
	if err := checkPprof(strings.Repeat("h:1,", 300) + "h:1"); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("%v", err)
	}
	s := Spec{Common: Common{Pprof: "h:1,http://me:hunter22@h:2/"}}
	if shown := s.Concealed(secret.Plain()).Pprof; strings.Contains(shown, "hunter22") || !strings.HasPrefix(shown, "h:1,") {
		t.Errorf("shown as %q", shown)
	}
}
