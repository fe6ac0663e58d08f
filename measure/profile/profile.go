// Package profile takes the profiles of a Go server over its pprof endpoint under load, and sums
// them up: which functions take the time.
package profile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"ceiling/internal/profiles"
	"ceiling/record"
)

const (
	// answerTimeout bounds a request that should return at once.
	answerTimeout = 2 * time.Second
	// bodyMax bounds a response: profiles of large programs are some MB.
	bodyMax = 64 << 20
	// framesMax is how many functions a summary names.
	framesMax = 8
	// cpuMax bounds a CPU profile: after 30 s the picture does not change.
	cpuMax = 30 * time.Second
)

// Endpoint is a pprof endpoint that has answered.
type Endpoint struct {
	url    string // ends in a slash
	client *http.Client
}

// FindWithin checks whether the URL is a pprof endpoint: its index names the profiles
// (net/http/pprof). permit is called before every connection with its address, including those of
// redirects; its error says why not. nil permits all.
func FindWithin(ctx context.Context, url string, permit func(netip.AddrPort) error) (*Endpoint, error) {
	// A separate transport, so that no connection outlives the endpoint. On a kept-alive connection
	// net/http would log what a server sends unasked.
	transport := &http.Transport{DisableKeepAlives: true}
	if permit != nil {
		transport.DialContext = (&net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return permit(to)
		}}).DialContext
	}
	e := &Endpoint{url: strings.TrimSuffix(url, "/") + "/", client: &http.Client{Transport: transport}}
	b, err := e.get(ctx, "", answerTimeout)
	if err == nil && (!bytes.Contains(b, []byte("goroutine")) || !bytes.Contains(b, []byte("profile"))) {
		err = fmt.Errorf("%s answers, but not with the index of net/http/pprof", secretless(e.url))
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Close closes the connection.
func (e *Endpoint) Close() { e.client.CloseIdleConnections() }

func (e *Endpoint) get(ctx context.Context, path string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, bodyMax+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s%s", secretless(e.url)+path, resp.Status, quoted(b))
	case len(b) > bodyMax:
		return nil, fmt.Errorf("%s answers more than %d MB", secretless(e.url)+path, bodyMax>>20)
	}
	return b, nil
}

// secretless returns a URL without a password.
func secretless(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the endpoint"
	}
	return u.Redacted()
}

// quoted returns the first line of an error response, if it is text.
func quoted(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b[:min(len(b), 160)])), "\n")
	if line == "" || !utf8.ValidString(line) || strings.HasPrefix(line, "<") {
		return ""
	}
	return ": " + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
}

// Snapshot has the cumulative profiles at one moment.
type Snapshot map[string]*profile.Profile

// cumulative returns the profiles that grow during the program's life: a run's part is the
// difference of two snapshots.
func cumulative() []string { return []string{record.ProfileMutex, record.ProfileBlock} }

// Snapshot takes the cumulative profiles. It costs the server some hundred
// microseconds.
func (e *Endpoint) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{}
	for _, kind := range cumulative() {
		b, err := e.get(ctx, kind, answerTimeout)
		if err != nil {
			return nil, err
		}
		p, err := profiles.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s profile: %w", kind, err)
		}
		s[kind] = p
	}
	return s, nil
}

// CPU takes a CPU profile of d, in whole seconds. The profiler costs the server about one per cent.
func (e *Endpoint) CPU(ctx context.Context, d time.Duration) (record.Profile, []byte, error) {
	s := int(max(min(d, cpuMax), time.Second).Seconds())
	b, err := e.get(ctx, fmt.Sprintf("profile?seconds=%d", s), d+answerTimeout+5*time.Second)
	if err != nil {
		return record.Profile{}, nil, err
	}
	p, err := profiles.Parse(b)
	if err != nil {
		return record.Profile{}, nil, fmt.Errorf("CPU profile: %w", err)
	}
	sum, err := summary(record.ProfileCPU, p)
	return sum, b, err
}

// Between sums up what happened between two snapshots. It leaves out an empty profile: the server
// does not record it (runtime. SetMutexProfileFraction, SetBlockProfileRate), or nothing waited.
func Between(before, after Snapshot) ([]record.Profile, error) {
	var list []record.Profile
	for _, kind := range cumulative() {
		a, b := before[kind], after[kind]
		if a == nil || b == nil {
			return nil, errors.New("a snapshot lacks the " + kind + " profile")
		}
		a.Scale(-1)
		diff, err := profile.Merge([]*profile.Profile{b, a})
		if err != nil {
			return nil, fmt.Errorf("difference of the %s profiles: %w", kind, err)
		}
		sum, err := summary(kind, diff)
		if err != nil {
			return nil, err
		}
		list = append(list, sum)
	}
	return list, nil
}

// SummaryOf sums up a profile of a given kind.
func SummaryOf(kind string, p *profile.Profile) (record.Profile, error) { return summary(kind, p) }

// summary names the functions with the most of the profile's time, each by the first frame outside
// the runtime and sync: the caller that can be changed.
func summary(kind string, p *profile.Profile) (record.Profile, error) {
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Unit == "nanoseconds" })
	if value < 0 {
		return record.Profile{}, fmt.Errorf("the %s profile counts no nanoseconds", kind)
	}
	sums := map[record.Frame]int64{}
	out := record.Profile{Kind: kind}
	for _, s := range p.Sample {
		v := s.Value[value]
		if v <= 0 {
			continue // rounding error of a difference
		}
		out.TotalNs += v
		sums[blame(s)] += v
	}
	for f, v := range sums {
		f.Ns = v
		f.Share = float64(v) / float64(out.TotalNs)
		out.Frames = append(out.Frames, f)
	}
	slices.SortFunc(out.Frames, func(a, b record.Frame) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
	out.Frames = out.Frames[:min(len(out.Frames), framesMax)]
	return out, nil
}

func blame(s *profile.Sample) record.Frame {
	frame := record.Frame{Function: "unknown"}
	through := ""
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			name := line.Function.Name
			frame = record.Frame{Function: name, File: line.Function.Filename, Line: int(line.Line), Through: through}
			if !plumbing(name) {
				return frame
			}
			if through == "" {
				through = name
			}
		}
	}
	return frame
}

// plumbing reports whether a function is infrastructure that all code waits in.
func plumbing(name string) bool {
	for _, prefix := range []string{"runtime.", "sync.", "internal/", "syscall.", "sync/atomic."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
