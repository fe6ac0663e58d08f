package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ceiling/internal/condition"
	"ceiling/internal/lazy"
	"ceiling/internal/unit"
)

// Session is what each user does: requests one after the other, with values of earlier responses in
// them. Each step is a target of the run.
type Session struct {
	Steps []Step `yaml:"steps"`
	// Secure reports whether the targets are https.
	Secure bool `yaml:"-"`
	// Origin identifies its file.
	Origin Origin `yaml:"-"`
}

// Step is one request of a session.
type Step struct {
	// Request has method and path: POST /login. Without a method it is GET, or POST with a body.
	Request string   `yaml:"request"`
	Header  []string `yaml:"header,omitempty"`
	Body    string   `yaml:"body,omitempty"` // text, or @file relative to the session's
	// Think is how long the user waits before it: 200ms, or any time in 200ms-1s.
	Think Span `yaml:"think,omitempty"`
	// Capture takes values of the response by name, for later steps: {{.name}}.
	Capture map[string]condition.Selector `yaml:"capture,omitempty"`
}

// Span is a time from Low to High.
type Span struct{ Low, High time.Duration }

// UnmarshalText reads 200ms, or 200ms-1s.
func (s *Span) UnmarshalText(text []byte) (err error) {
	low, high, isSpan := strings.Cut(string(text), "-")
	if s.Low, err = unit.ParseDuration(strings.TrimSpace(low)); err != nil {
		return err
	}
	if s.High = s.Low; isSpan {
		if s.High, err = unit.ParseDuration(strings.TrimSpace(high)); err != nil {
			return err
		}
	}
	if s.High < s.Low {
		return fmt.Errorf("%s: the shorter time is the first: 200ms-1s", quoteShort(string(text)))
	}
	return nil
}

// OriginSession makes the requests of sessions.
const OriginSession = "session"

// stepsMax limits the steps of a session: each has figures of its own.
const stepsMax = 100

// captureName is what a captured value may be called.
var captureName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*$`) // read-only

// ReadSession reads a session's file.
func ReadSession(path string) (*Session, error) {
	data, err := readFile(path, experimentMax, "session")
	if err != nil {
		return nil, err
	}
	s := &Session{}
	if err := ParseYAML(data, path, "docs/requests.md", s); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	s.Origin = Origin{What: OriginSession, Name: filepath.Base(path), SHA256: hex.EncodeToString(sum[:])}
	switch {
	case len(s.Steps) == 0:
		return nil, fmt.Errorf("%s: a session has steps: - request: GET /", path)
	case len(s.Steps) > stepsMax:
		return nil, fmt.Errorf("%s: %d steps are too many; at most %d", path, len(s.Steps), stepsMax)
	}
	for i := range s.Steps {
		if err := s.Steps[i].check(filepath.Dir(path)); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", path, i+1, err)
		}
	}
	return s, nil
}

func (p *Step) check(dir string) error {
	if words := strings.Fields(p.Request); len(words) == 0 || len(words) > 2 || !strings.HasPrefix(words[len(words)-1], "/") {
		return fmt.Errorf("request %s: write the method and the path: POST /login", quoteShort(p.Request))
	}
	for name := range p.Capture {
		if !captureName().MatchString(name) {
			return fmt.Errorf("capture %s: a name has letters, digits, _ and -", quoteShort(name))
		}
	}
	if name, isFile := strings.CutPrefix(p.Body, "@"); isFile && name != "-" && !filepath.IsAbs(name) {
		p.Body = "@" + filepath.Join(dir, name)
	}
	return nil
}

// Targets returns the steps as targets of the server at base.
func (s *Session) Targets(base string) ([]Target, error) {
	to, _, _, err := ParseTarget(base)
	if err != nil {
		return nil, err
	}
	s.Secure = to.TLS
	var list []Target
	for i := range s.Steps {
		p := &s.Steps[i]
		words := strings.Fields(p.Request)
		t := Target{Method: "GET", URL: base + words[len(words)-1], Weight: 1, From: &s.Origin}
		if p.Body != "" {
			body, err := ReadBody(p.Body, strings.NewReader(""))
			if err != nil {
				return nil, fmt.Errorf("step %d: %w", i+1, err)
			}
			t.Method, t.Body = "POST", body
		}
		if len(words) == 2 {
			t.Method = strings.ToUpper(words[0])
		}
		for _, text := range p.Header {
			field, err := ParseField(text)
			if err != nil {
				return nil, fmt.Errorf("step %d: header: %w", i+1, err)
			}
			t.Header = append(t.Header, field)
		}
		list = append(list, t)
	}
	return list, nil
}
