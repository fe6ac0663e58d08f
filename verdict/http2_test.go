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
			ElapsedS: 10, WarmupS: 1, Spec: spec.Spec{Connections: 4, Pipelining: 100},
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
		"window held request bodies back for 75% of the connections' time (1,234 stalls, 65,535 bytes for each stream at first)",
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
