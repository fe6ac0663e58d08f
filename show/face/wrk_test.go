package face

import (
	"strings"
	"testing"
	"time"

	"ceiling/record"
)

// TestWrkUnits: from 85 % of the next unit on, in that, as wrk's source has it.
func TestWrkUnits(t *testing.T) {
	for want, got := range map[string]string{
		"849.00us": wrkTime(849), "0.85ms": wrkTime(850), "12.92ms": wrkTime(12_920), "1.05s": wrkTime(1_050_000), "1.00m": wrkTime(60e6),
		"849.00": wrkMetric(849), "56.20k": wrkMetric(56_200), "1.09G": wrkBinary(1.09 * (1 << 30)), "30s": wrkSeconds(30 * time.Second),
		"1m": wrkSeconds(time.Minute),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestWrkReport: each figure in its place; Req/Sec is that of one of two threads.
func TestWrkReport(t *testing.T) {
	r := &Run{Threads: 2, Done: &record.Run{ElapsedS: 10, Requests: record.Requests{Completed: 1_000_000}, Bytes: record.Bytes{Read: 1 << 30},
		Rate: record.Rate{CompletedPerS: 100_000, Spread: record.Spread{StdevPerS: 2000, MaxPerS: 110_000, WithinStdev: .7}},
		Latency: record.Latency{Response: record.Quantiles{MeanNs: 635_910, StdevNs: 890_000, MaxNs: 12_920_000, WithinStdev: .9369,
			P50Ns: 250_000, P75Ns: 491_000, P90Ns: 700_000, P99Ns: 5_800_000}},
		Errors: []record.Error{{Phase: record.PhaseConnect, Cause: "ECONNREFUSED", Count: 1}, {Phase: record.PhaseResponse, Cause: "ECONNRESET", Count: 2},
			{Phase: record.PhaseSend, Cause: "EPIPE", Count: 3}, {Phase: record.PhaseResponse, Cause: "timeout", Count: 4},
			{Phase: record.PhaseStatus, Cause: "503", Count: 5}}}}
	want := `  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
    Req/Sec    50.00k     1.00k   55.00k    70.00%
  Latency Distribution
     50%  250.00us
     75%  491.00us
     90%  700.00us
     99%    5.80ms
  1000000 requests in 10.00s, 1.00GB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec: 100000.00
Transfer/sec:    102.40MB
`
	var b strings.Builder
	if err := WrkEnd(&b, r, true); err != nil || b.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), want)
	}
}
