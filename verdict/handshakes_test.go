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
