package verdict

import (
	"strings"
	"testing"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestStreams: a server that allows fewer streams than were asked for, or holds uploads
// back by its windows, is said so with figures; one that does neither is not.
func TestStreams(t *testing.T) {
	told := func(h *record.HTTP2) string {
		r := &record.Run{
			ElapsedS: 10, WarmupS: 1, Spec: spec.Spec{Condition: spec.Condition{Connections: 4, Pipelining: 100}},
			Requests: record.Requests{Sent: 1000, Completed: 1000}, Rate: record.Rate{CompletedPerS: 100},
			Load: record.Load{Connections: 4, Established: 4, Threads: 1, Pipelining: 100, Mode: "closed", Protocol: "h2", HTTP2: h},
		}
		var all []string
		for _, c := range Judge(r, &record.Series{}).Caveats {
			all = append(all, prose.Text(c))
		}
		return strings.Join(all, "\n")
	}
	held := told(&record.HTTP2{MaxStreams: 32, InitialWindow: 65535, Stalls: 1234, StalledNs: 30e9})
	for _, want := range []string{
		"the server allows 32 streams on an HTTP/2 connection, -p 100 asks for more",
		"window held back request bodies for 75% of connection time (1,234 stalls, initial window 65,535 bytes per stream)",
	} {
		if !strings.Contains(held, want) {
			t.Errorf("nothing says %q:\n%s", want, held)
		}
	}
	free := told(&record.HTTP2{MaxStreams: 100, InitialWindow: 1 << 20, Stalls: 4, StalledNs: 1e9})
	if strings.Contains(free, "HTTP/2") || strings.Contains(free, "batch") {
		t.Errorf("told without a reason:\n%s", free)
	}
}

// TestWindow: uploads that a window holds back over a distance name it, with what it allows.
// A PING that comes back long before the window opens is a server that does not read, and a
// connection that carries much less than the window allows has another limit.
func TestWindow(t *testing.T) {
	judged := func(change func(*record.Run)) (record.Bottleneck, string) {
		r := &record.Run{
			ElapsedS: 10, WarmupS: 1, Spec: spec.Spec{Condition: spec.Condition{Connections: 4, Pipelining: 1}},
			Requests: record.Requests{Sent: 1000, Completed: 1000}, Rate: record.Rate{CompletedPerS: 100},
			Bytes: record.Bytes{Written: 4 * 10 * 3_000_000}, Generator: record.Generator{BusiestWorker: 0.1},
			Load: record.Load{Connections: 4, Established: 4, Threads: 1, Pipelining: 1, Mode: "closed", Protocol: "h2", HTTP2: &record.HTTP2{
				MaxStreams: 100, InitialWindow: 1 << 20, ConnectionWindow: 65536, Stalls: 5000, StalledNs: 36e9,
				StallPings: 400, StallPingNs: 20e6, StallPingedNs: 19e6,
			}},
		}
		change(r)
		f := newFacts(r, &record.Series{})
		v := ruleWindow(f)
		text := ""
		for _, s := range v.because {
			text += prose.Text(s)
		}
		for _, c := range Judge(r, &record.Series{}).Caveats {
			text += "\n" + prose.Text(c)
		}
		if v.answer != matched {
			return "", text
		}
		return v.bottleneck, text
	}
	named, text := judged(func(*record.Run) {})
	if want := "a connection may send 65.5 kB per round trip of 20.0 ms, 3.28 MB/s at most"; named != record.HTTP2Window || !strings.Contains(text, want) {
		t.Errorf("named %q:\n%s", named, text)
	}
	for name, change := range map[string]func(*record.Run){
		"it does not read":      func(r *record.Run) { r.Load.HTTP2.StallPingNs = 0.3e6 },
		"no PING":               func(r *record.Run) { r.Load.HTTP2.StallPings = 0 },
		"seldom":                func(r *record.Run) { r.Load.HTTP2.StalledNs = 10e9 },
		"less than it allows":   func(r *record.Run) { r.Bytes.Written /= 4 },
		"HTTP/1.1":              func(r *record.Run) { r.Load.HTTP2 = nil },
		"the generator is full": func(r *record.Run) { r.Generator.BusiestWorker = 1 },
	} {
		if named, text := judged(change); named != "" {
			t.Errorf("%s: named %q:\n%s", name, named, text)
		}
	}
	_, text = judged(func(r *record.Run) { r.Load.HTTP2.StallPingNs = 0.3e6 })
	if want := "the server answered a PING within 300 µs but opened its HTTP/2 window only after 19.0 ms: it reads the bodies slowly"; !strings.Contains(text, want) {
		t.Errorf("nothing says %q:\n%s", want, text)
	}
}
