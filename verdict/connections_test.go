package verdict

import (
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestHandshakes: where each request pays for a handshake the verdict says what they
// take, and that the rate is theirs; where few do it says nothing.
func TestHandshakes(t *testing.T) {
	run := func(handshakes uint64, cpu time.Duration) *record.Run {
		r := &record.Run{
			ElapsedS: 10, WarmupS: 1,
			Spec:      spec.Spec{Condition: spec.Condition{Connections: 64, Pipelining: 1}, Settings: spec.Settings{NewConnections: 1}},
			Requests:  record.Requests{Sent: 1000, Completed: 1000},
			Rate:      record.Rate{CompletedPerS: 100},
			Generator: record.Generator{UserNs: int64(time.Second), BusiestWorker: .99, Workers: []record.Worker{{Busy: .99, Completed: 1000}}},
			Load:      record.Load{Connections: 64, Established: 64, Threads: 1, Pipelining: 1, Mode: "closed"},
		}
		r.Load.TLS = &record.TLS{Version: "TLS 1.3", Handshakes: record.Quantiles{Count: handshakes}, CPUNs: int64(cpu)}
		return r
	}
	told := func(r *record.Run) string {
		v := Judge(r, &record.Series{})
		var all []string
		for _, e := range append(v.Evidence, v.Against...) {
			all = append(all, prose.Text(e.Says))
		}
		for _, c := range v.Caveats {
			all = append(all, prose.Text(c))
		}
		return strings.Join(all, "\n")
	}
	many := told(run(1000, 700*time.Millisecond))
	for _, want := range []string{
		"TLS handshakes take 70% of the generator's CPU time, 700 µs each",
		"1,000 TLS handshakes for 1,000 requests: rate and CPU of both ends include them; remove --new-connections",
	} {
		if !strings.Contains(many, want) {
			t.Errorf("nothing says %q:\n%s", want, many)
		}
	}
	if few := told(run(10, 7*time.Millisecond)); strings.Contains(few, "handshake") {
		t.Errorf("ten handshakes are told of:\n%s", few)
	}
}

// TestCloses: a keep-alive limit is told only where connections end after the same
// number of requests.
func TestCloses(t *testing.T) {
	for _, c := range []struct {
		name   string
		closes *record.Closes
		again  uint64
		says   string
	}{
		{"limit", &record.Closes{InFlight: 1000, Most: 100, AtMost: 995}, 1000,
			"closes each connection after 100 requests (keep-alive limit): 1,000 reconnects"},
		{"announced limit", &record.Closes{Announced: 1000, Most: 100, AtMost: 1000}, 1000, "(keep-alive limit)"},
		{"one each", &record.Closes{Announced: 100_000, Most: 1, AtMost: 100_000}, 100_000, "after 1 request (keep-alive limit)"},
		{"random", &record.Closes{InFlight: 990, Idle: 10, Most: 612, AtMost: 1}, 30,
			"at random moments, after 612 requests at most: 990 of 1,000 with a request in flight, 30 reconnects"},
		{"announced, after any number", &record.Closes{Announced: 1000, Most: 612, AtMost: 1}, 1000,
			"announces the end of connections (Connection: close), after 612 requests at most"},
		{"timeout after one request each", &record.Closes{Idle: 1000, Most: 1, AtMost: 1000, IdleMeanNs: 5.01e9}, 1000,
			"closes idle connections, after 5.01 s without a request (keep-alive timeout): 1,000 reconnects"},
		{"limit, with a pause after each", &record.Closes{Idle: 1000, Most: 1, AtMost: 1000, IdleMeanNs: 1e6}, 1000, "after 1 request (keep-alive limit)"},
		{"timeout", &record.Closes{Idle: 1000, InFlight: 3, Most: 90, AtMost: 8}, 1003,
			"closes idle connections, after 90 requests at most (keep-alive timeout)"},
		{"few", &record.Closes{InFlight: 100, Most: 1000, AtMost: 100}, 100, ""},
		{"older record", nil, 1100, "the server closed connections: 1,100 reconnects"},
	} {
		var d caveats
		run := &record.Run{Requests: record.Requests{Completed: 100_000}, Load: record.Load{Reconnects: c.again, Closes: c.closes}}
		d.ofTheConnections(run)
		text := strings.Join(prose.Texts(d), "\n")
		if !strings.Contains(text, c.says) || c.says == "" && text != "" || strings.Contains(text, "limit") != strings.Contains(c.says, "limit") {
			t.Errorf("%s: %q, want %q", c.name, text, c.says)
		}
	}
}

// TestFaultsOfResponses: what common clients read is a caveat, and no error.
func TestFaultsOfResponses(t *testing.T) {
	run := &record.Run{Requests: record.Requests{Completed: 10}, ElapsedS: 10,
		Errors: []record.Error{{Phase: record.PhaseFault, Cause: "a blank behind a chunk size", Count: 10}}}
	v := Judge(run, nil)
	if text := strings.Join(prose.Texts(v.Caveats), "\n"); !strings.Contains(text, "10 responses have a blank behind a chunk size: common clients read them") || v.Outcome == record.Fail {
		t.Errorf("%s: %s", v.Outcome, text)
	}
}

// TestConnectionLimit: where the server closes the connections over a number, that is its limit; where they
// were not taken, it is not.
func TestConnectionLimit(t *testing.T) {
	for reconnects, want := range map[uint64]bool{3601: true, 0: false} {
		run := &record.Run{Load: record.Load{Connections: 600, Established: 504, Reconnects: reconnects}}
		text := strings.Join(prose.Texts(Judge(run, nil).Caveats), "\n")
		if !strings.Contains(text, "only 504 of 600 connections were established") ||
			strings.Contains(text, `its own limit is at or near 504 (nginx worker_connections, with "worker_connections are not enough"`) != want {
			t.Errorf("%d reconnects: %s", reconnects, text)
		}
	}
}
