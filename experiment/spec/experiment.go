package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/unit"
)

// Experiment is a question that takes more than one run: the servers, the requests, and the
// number of runs. It is the content of a file in docs/experiments/, or built from lists on the
// command line.
type Experiment struct {
	// Kind is KindSweep, KindFind, KindProve, KindCompare or KindFactorial.
	Kind string `json:"kind" yaml:"kind" jsonschema:"what to measure: sweep, find, prove, compare or factorial"`
	// Question is the purpose, in one line.
	Question string `json:"question,omitempty" yaml:"question,omitempty" jsonschema:"the question, in a line"`
	// Hypothesis is the expected result, written down before measuring.
	Hypothesis string `json:"hypothesis,omitempty" yaml:"hypothesis,omitempty" jsonschema:"what is expected, and why"`
	// Servers to load. A comparison has two, a search and a proof one.
	Servers []Server `json:"servers" yaml:"servers" jsonschema:"what is loaded"`
	// Requests are the mixes to measure separately on each server.
	Requests []Mix `json:"requests" yaml:"requests" jsonschema:"what is sent: each entry is measured on its own"`
	// Link is the link that the load crosses; the zero value: whatever leads to the servers.
	Link Link `json:"link,omitzero" yaml:"link,omitempty" jsonschema:"a link to the servers, which are started in a network namespace at its other end"`
	Load Load `json:"load,omitzero" yaml:"load,omitempty" jsonschema:"how it is sent; a list is a dimension of a sweep"`
	// Expect is what a response must be like.
	Expect Expect `json:"expect,omitzero" yaml:"expect,omitempty" jsonschema:"what a response must be like: statuses, as in 2xx,304 (default: below 400), or a list with body contains \"ok\", json $.status == \"up\", header Name contains x, bytes < 10000"`
	SLO    SLO    `json:"slo,omitempty" yaml:"slo,omitempty" jsonschema:"SLO to check: p99<5ms,errors<0.1%"`
	// Repeats of every condition; 0 is the default of the kind.
	Repeats int `json:"repeats,omitempty" yaml:"repeats,omitempty" jsonschema:"runs of every condition (0 = auto)"`
	// Rest before every run, so that runs do not affect each other.
	Rest Time `json:"rest,omitempty" yaml:"rest,omitempty" jsonschema:"pause before every run, as in 500ms"`
	// Seed of the order of runs and every random choice in them.
	Seed    uint64  `json:"seed,omitempty" yaml:"seed,omitempty" jsonschema:"random seed (0 = auto)"`
	Find    Find    `json:"find,omitzero" yaml:"find,omitempty" jsonschema:"of kind find"`
	Prove   Prove   `json:"prove,omitzero" yaml:"prove,omitempty" jsonschema:"of kind prove"`
	Compare Compare `json:"compare,omitzero" yaml:"compare,omitempty" jsonschema:"of kind compare"`
	// Factorial defines what a factorial experiment varies.
	Factorial Factorial `json:"factorial,omitzero" yaml:"factorial,omitempty" jsonschema:"of kind factorial"`
}

// Server is a running server, or a command that starts one.
type Server struct {
	// Name in tables; defaults to the URL or the command.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"as tables call it"`
	// URL of a running server, up to its path: http://127.0.0.1:8080.
	URL string `json:"url,omitempty" yaml:"url,omitempty" jsonschema:"of a server that runs: http://host:port"`
	// Serve is a command that starts one; {addr}, {host} and {port} are replaced with a free
	// loopback address, also available in its environment as PORT and ADDR. A first word
	// "ceiling" is this program.
	Serve string `json:"serve,omitempty" yaml:"serve,omitempty" jsonschema:"a command that starts one; {addr} is replaced by a free address"`
	// Dir is where the command starts; "": where ceiling was.
	Dir string `json:"dir,omitempty" yaml:"dir,omitempty" jsonschema:"directory that the command starts in, relative to this file"`
	// Env is added to the command's environment, NAME=value.
	Env []string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"of the command, NAME=value"`
	// TLS: the command serves https. Our own servers report it themselves.
	TLS bool `json:"tls,omitempty" yaml:"tls,omitempty" jsonschema:"the command serves https"`
}

// Mix is a set of requests sent together, by weight.
type Mix struct {
	// Name in tables; defaults to the paths.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"as tables call it"`
	// A single request, or Mix for several.
	MixRequest `yaml:",inline"`
	Mix        []MixRequest `json:"mix,omitempty" yaml:"mix,omitempty" jsonschema:"several requests by weight, in place of path"`
}

// MixRequest is one request of a Mix, independent of the server.
type MixRequest struct {
	Path   string   `json:"path,omitempty" yaml:"path,omitempty" jsonschema:"with its query: /read?id=1"`
	Method string   `json:"method,omitempty" yaml:"method,omitempty" jsonschema:"GET, or POST with a body"`
	Header []string `json:"header,omitempty" yaml:"header,omitempty" jsonschema:"fields, Name: value"`
	Body   string   `json:"body,omitempty" yaml:"body,omitempty" jsonschema:"text, or @file relative to this one"`
	// Content is the content of the file that Body names, saved with the plan.
	Content []byte `json:"content,omitempty" yaml:"-"`
	// BodyHidden replaces a redacted Body and Content.
	BodyHidden *HiddenBody `json:"body_hidden,omitempty" yaml:"-"`
	Weight     int         `json:"weight,omitempty" yaml:"weight,omitempty" jsonschema:"share of the mix, 1 where none is given"`
	// From fills it in during the run, as in a Target.
	From *Origin `json:"from,omitempty" yaml:"-"`
}

// Load is how requests are sent.
type Load struct {
	Common      `yaml:",inline"`
	Settings    `yaml:",inline"`
	Lists       `yaml:",inline"`
	Duration    Time   `json:"duration,omitempty" yaml:"duration,omitempty" jsonschema:"measured time of each run"`
	Warmup      *Time  `json:"warmup,omitempty" yaml:"warmup,omitempty" jsonschema:"before it, not counted"`
	Timeout     Time   `json:"timeout,omitempty" yaml:"timeout,omitempty" jsonschema:"request and connect timeout"`
	ConnectRamp Time   `json:"connect_ramp,omitempty" yaml:"connect_ramp,omitempty" jsonschema:"open the connections over this time"`
	Apart       *bool  `json:"apart,omitempty" yaml:"apart,omitempty" jsonschema:"generator and server on separate CPUs; where nothing is said, so are servers that are started"`
	Link        string `json:"link,omitempty" yaml:"link,omitempty" jsonschema:"link speed if the kernel does not know it: 50Gbps"`
}

// Find limits a search.
type Find struct {
	// Start and Most are rates in requests per second; 0 for automatic.
	Start Count `json:"start,omitempty" yaml:"start,omitempty" jsonschema:"first rate, requests per second; 0 chooses"`
	Most  Count `json:"most,omitempty" yaml:"most,omitempty" jsonschema:"highest rate to try, requests per second; 0 as far as it goes"`
	// Within is the width of the answer at which the search ends, as a share.
	Within float64 `json:"within,omitempty" yaml:"within,omitempty" jsonschema:"end when the answer is known within this share, 0.03 where none is given"`
}

// Prove defines what a proof may perturb.
type Prove struct {
	// Share removed from each resource, 0 to 0.8; 0 for the default.
	Share float64 `json:"share,omitempty" yaml:"share,omitempty" jsonschema:"share removed from each resource, 0.25 where none is given"`
	// Interface that a run may throttle; "" for none.
	Interface string `json:"interface,omitempty" yaml:"interface,omitempty" jsonschema:"network interface to throttle"`
	// Namespace of the interface, as named by ip netns; "" for the current one.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty" jsonschema:"network namespace of that interface"`
}

// Compare defines the size of a comparison and its failure conditions.
type Compare struct {
	// Blocks of ABBA, and A/A blocks; 0 for automatic.
	Blocks      int `json:"blocks,omitempty" yaml:"blocks,omitempty" jsonschema:"of A B B A; 0 chooses"`
	NoiseBlocks int `json:"noise_blocks,omitempty" yaml:"noise_blocks,omitempty" jsonschema:"of A vs A; 0 chooses"`
	// FailOn in the form rps<-5%,p99>+10%.
	FailOn string `json:"fail_on,omitempty" yaml:"fail_on,omitempty" jsonschema:"what shall fail: rps<-5%,p99>+10%"`
}

// Time is a time.Duration that is text in YAML and JSON: "500ms".
type Time time.Duration

// MarshalText writes it as ParseDuration reads it.
func (t Time) MarshalText() ([]byte, error) { return []byte(time.Duration(t).String()), nil }

// UnmarshalText reads "500ms", "2s", "2m".
func (t *Time) UnmarshalText(text []byte) error {
	d, err := unit.ParseDuration(string(text))
	*t = Time(d)
	return err
}

// Count is a whole number that may be written as 10k.
type Count int64

// MarshalText writes it in digits.
func (c Count) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(c), 10), nil }

// UnmarshalText reads "500", "10k", "1M".
func (c *Count) UnmarshalText(text []byte) error {
	n, err := unit.ParseCount(string(text))
	*c = Count(n)
	return err
}

// MarshalJSON writes a number.
func (c Count) MarshalJSON() ([]byte, error) { return c.MarshalText() }

// UnmarshalJSON reads a number, or text as UnmarshalText does.
func (c *Count) UnmarshalJSON(text []byte) error {
	return c.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// List is a list that one value without brackets also gives: connections: 64.
type List[T any] []T

// UnmarshalYAML reads a list, or one value.
func (l *List[T]) UnmarshalYAML(unmarshal func(any) error) error {
	return either(l, unmarshal)
}

// UnmarshalJSON does the same: in records made before it was a list, threads is a number.
func (l *List[T]) UnmarshalJSON(text []byte) error {
	return either(l, func(into any) error { return json.Unmarshal(text, into) })
}

// either reads a list or, where there is none, one value.
func either[T any](l *List[T], unmarshal func(any) error) error {
	if unmarshal(new([]any)) == nil {
		return unmarshal((*[]T)(l))
	}
	var one T
	if err := unmarshal(&one); err != nil {
		return err
	}
	*l = List[T]{one}
	return nil
}

// Label is the server's name in tables.
func (s *Server) Label() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.URL != "":
		return s.URL
	}
	return s.Serve
}

// Loaded names a server and its requests by their labels: a URL becomes complete again.
func Loaded(server, mix string) string {
	if strings.Contains(server, "://") && strings.HasPrefix(mix, "/") {
		return server + mix
	}
	return server + " " + mix
}

// All returns the requests of the mix.
func (m *Mix) All() []MixRequest {
	if len(m.Mix) > 0 {
		return m.Mix
	}
	return []MixRequest{m.MixRequest}
}

// Label is the mix's name in tables.
func (m *Mix) Label() string {
	if m.Name != "" {
		return m.Name
	}
	all := m.All()
	text := all[0].Path
	if len(all) > 1 {
		text = fmt.Sprintf("%s and %d more", text, len(all)-1)
	}
	return text
}
