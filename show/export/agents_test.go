//go:build linux

package export

import (
	"io"
	"strings"
	"testing"

	"ceiling/internal/hist"
	"ceiling/record"
)

// TestAgents: each agent's figures carry its name, also one that needs escaping;
// an observer has none of a load.
func TestAgents(t *testing.T) {
	s := made(t, func(r *record.Run, h *hist.Hist) {
		h.Record(1e6)
		r.Requests.Completed = 1
		r.Agents = []record.Agent{
			{Name: `lo"ad1`, Loads: true, Share: record.AgentShare{Count: 1, Of: 4}, Rate: record.Rate{CompletedPerS: 9},
				Requests:  record.Requests{Completed: 90, Failed: 2},
				Latency:   record.Latency{Response: record.Quantiles{Count: 9, P50Ns: 1e6, P99Ns: 2e6, MaxNs: 3e6}},
				Generator: record.Generator{BusiestWorker: .5},
				Clock:     record.AgentClock{Pings: 3, ErrorNs: 5e4}, StartSkewNs: 1e6, Lost: "gone"},
			{Name: "web", Observes: true},
		}
	})
	text := written(t, func(w io.Writer) error { return Prometheus(w, s) })
	for _, want := range []string{
		`ceiling_agent_requests_completed_total{agent="lo\"ad1"} 90`, `ceiling_agent_requests_failed_total{agent="lo\"ad1"} 2`,
		`ceiling_agent_completed_per_second{agent="lo\"ad1"} 9`, `ceiling_agent_response_quantile_seconds{agent="lo\"ad1",quantile="0.99"} 0.002`,
		`ceiling_agent_share_ratio{agent="lo\"ad1"} 0.25`, `ceiling_agent_start_skew_seconds{agent="lo\"ad1"} 0.001`,
		`ceiling_agent_clock_error_seconds{agent="lo\"ad1"} 5e-05`, `ceiling_agent_lost{agent="lo\"ad1"} 1`, `ceiling_agent_lost{agent="web"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `completed_total{agent="web"}`) {
		t.Error("an observer has requests")
	}
}

// TestAgentRows: rows of agents are a table of their own, with the columns of
// load.
func TestAgentRows(t *testing.T) {
	dir := changed(t, map[string]string{"series": `{"kind":"load","host":"d","t_ns":100000000,"width_ns":100000000,"completed":30}
{"kind":"agent","host":"load1","t_ns":100000000,"width_ns":100000000,"completed":10}
{"kind":"agent","host":"load2","t_ns":100000000,"width_ns":100000000,"completed":20}
`})
	table := func(kind string) []string {
		return strings.Split(strings.TrimSpace(written(t, func(w io.Writer) error { return CSV(w, openRows(t, dir), kind) })), "\r\n")
	}
	agents, load := table(record.KindAgent), table(record.KindLoad)
	if agents[0] != load[0] || len(agents) != 3 || len(load) != 2 {
		t.Fatalf("%q\n%q", agents, load)
	}
	if !strings.HasPrefix(agents[2], "agent,load2,") || !strings.HasSuffix(agents[2], ",200.000") {
		t.Errorf("row %q", agents[2])
	}
}
