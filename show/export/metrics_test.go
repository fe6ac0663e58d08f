//go:build linux

package export

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"ceiling/internal/hist"
	"ceiling/record"
)

// scrape is what Prometheus' own parser makes of OpenMetrics text.
type scrape struct {
	samples map[string]float64 // by name and labels, as labels.Labels writes them
	labels  map[string]labels.Labels
	types   map[string]model.MetricType
	units   map[string]string
}

func scraped(t *testing.T, text string) scrape {
	t.Helper()
	s := scrape{map[string]float64{}, map[string]labels.Labels{}, map[string]model.MetricType{}, map[string]string{}}
	p := textparse.NewOpenMetricsParser([]byte(text), labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return s
		}
		if err != nil {
			t.Fatalf("Prometheus cannot read it: %v\n%s", err, text)
		}
		switch entry {
		case textparse.EntryType:
			name, typ := p.Type()
			if _, twice := s.types[string(name)]; twice {
				t.Errorf("%s has two types", name)
			}
			s.types[string(name)] = typ
		case textparse.EntryUnit:
			name, unit := p.Unit()
			s.units[string(name)] = string(unit)
		case textparse.EntrySeries:
			_, at, v := p.Series()
			var l labels.Labels
			p.Labels(&l)
			if at != nil {
				t.Errorf("%s has a timestamp", l)
			}
			if _, twice := s.samples[l.String()]; twice {
				t.Errorf("%s is there twice", l)
			}
			s.samples[l.String()], s.labels[l.String()] = v, l
		}
	}
}

// one answers the value of the only sample of a name with these labels.
func (s *scrape) one(t *testing.T, name string, with ...string) float64 {
	t.Helper()
	var found []float64
	for key, l := range s.labels {
		ok := l.Get(model.MetricNameLabel) == name
		for i := 0; i < len(with); i += 2 {
			ok = ok && l.Get(with[i]) == with[i+1]
		}
		if ok {
			found = append(found, s.samples[key])
		}
	}
	if len(found) != 1 {
		t.Errorf("%d samples of %s %v, want 1", len(found), name, with)
		return math.NaN()
	}
	return found[0]
}

// TestPrometheusReadsIt: by the parser of Prometheus, figures against the
// record.
func TestPrometheusReadsIt(t *testing.T) {
	s := open(t, real)
	r := s.Run
	got := scraped(t, written(t, func(w io.Writer) error { return Prometheus(w, s) }))
	for name, want := range map[string]float64{
		"ceiling_requests_sent_total":            float64(r.Requests.Sent),
		"ceiling_requests_completed_total":       float64(r.Requests.Completed),
		"ceiling_requests_failed_total":          0,
		"ceiling_read_bytes_total":               float64(r.Bytes.Read),
		"ceiling_elapsed_seconds":                r.ElapsedS,
		"ceiling_completed_per_second":           r.Rate.CompletedPerS,
		"ceiling_asked_per_second":               400,
		"ceiling_response_seconds_count":         float64(r.Latency.Response.Count),
		"ceiling_generator_busiest_worker_ratio": r.Generator.BusiestWorker,
		"ceiling_run_info":                       1,
		"ceiling_started_timestamp_seconds":      float64(r.Started.UnixNano()) / 1e9,
		"ceiling_responses_total":                800,
		"ceiling_service_seconds_sum":            r.Latency.Service.MeanNs * float64(r.Latency.Service.Count) / 1e9,
	} {
		if v := got.one(t, name); math.Abs(v-want) > 1e-9*want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if v := got.one(t, "ceiling_response_quantile_seconds", "quantile", "0.99"); v != float64(r.Latency.Response.P99Ns)/1e9 {
		t.Errorf("p99 is %v", v)
	}
	if v := got.one(t, "ceiling_response_seconds_bucket", "le", "+Inf"); v != 800 {
		t.Errorf("the last bucket has %v", v)
	}
	for name, want := range map[string]model.MetricType{
		"ceiling_run": model.MetricTypeInfo, "ceiling_requests_sent": model.MetricTypeCounter,
		"ceiling_lag_seconds": model.MetricTypeHistogram, "ceiling_elapsed_seconds": model.MetricTypeGauge,
	} {
		if got.types[name] != want {
			t.Errorf("%s is a %s", name, got.types[name])
		}
	}
	for name, unit := range got.units {
		if !strings.HasSuffix(name, "_"+unit) {
			t.Errorf("%s does not end in its unit %s", name, unit)
		}
	}
}

// TestBucketsCount: a value falls into the bucket it belongs to, and all into
// one of them.
func TestBucketsCount(t *testing.T) {
	s := made(t, func(r *record.Run, h *hist.Hist) {
		for _, ns := range []int64{1, 9_000, 15_000, 15_000, 700_000, 3_000_000, 90_000_000_000} {
			h.Record(ns)
		}
		r.Requests.Completed = h.Count()
	})
	got := scraped(t, written(t, func(w io.Writer) error { return Prometheus(w, s) }))
	for le, want := range map[string]float64{"1e-05": 2, "2e-05": 4, "0.0005": 4, "0.001": 5, "0.005": 6, "50.0": 6, "+Inf": 7} {
		if v := got.one(t, "ceiling_response_seconds_bucket", "le", le); v != want {
			t.Errorf("at most %s: %v, want %v", le, v, want)
		}
	}
}

// TestHostileLabels: they come back as they were, a password does not.
func TestHostileLabels(t *testing.T) {
	// Every text tries to get out of its quotes.
	s := made(t, func(r *record.Run, h *hist.Hist) {
		h.Record(1000)
		r.Target = "http://me:secret@h/" + hostile
		r.Environment.Host = hostile
		r.Load.Engine = `a"} 1` + "\n# EOF\n"
		r.Statuses = map[string]uint64{hostile: 3}
		r.Errors = []record.Error{{Phase: hostile, Cause: "\\", Count: 1}, {Phase: "x", Cause: "", Count: 2}}
		r.ByTarget = []record.TargetResult{{Target: "GET http://u:secret@h/", Completed: 1}, {Target: "GET http://u:secret@h/", Completed: 2}}
	})
	text := written(t, func(w io.Writer) error { return Prometheus(w, s) })
	if strings.Contains(text, "secret") {
		t.Error("the password of the URL is in it")
	}
	got := scraped(t, text)
	want := strings.ToValidUTF8(hostile, "\uFFFD") // so is it in the record already
	if v := got.one(t, "ceiling_run_info", "host", want, "engine", `a"} 1`+"\n# EOF\n", "target", "http://hidden@h/"+want); v != 1 {
		t.Error(v)
	}
	if v := got.one(t, "ceiling_responses_total", "status", want); v != 3 {
		t.Error(v)
	}
	if v := got.one(t, "ceiling_errors_total", "phase", want, "cause", `\`); v != 1 {
		t.Error(v)
	}
	if v := got.one(t, "ceiling_target_requests_completed_total", "place", "2", "target", "GET http://hidden@h/"); v != 2 {
		t.Error(v)
	}
}

func TestShownTargets(t *testing.T) {
	for in, want := range map[string]string{
		"http://a:b@c/d":               "http://hidden@c/d",
		"GET http://a:b@c/d":           "GET http://hidden@c/d",
		"http://c/d?x=1&token=a":       "http://c/d?x=1&token=hidden",
		"http://a:p@ss@c":              "http://hidden@c",
		"http://[::1]:80/":             "http://[::1]:80/",
		"unix:/a:b@c":                  "unix:/a:b@c",
		"":                             "",
		"http://hidden-0123456789ab@c": "http://hidden-0123456789ab@c",
	} {
		if got := shown(in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// FuzzLabels: any text comes back from Prometheus' parser.
func FuzzLabels(f *testing.F) {
	f.Add(hostile, "")
	f.Add("\\n\\\\", "\"")
	f.Add("\x00\r\t", "{}=,")
	f.Fuzz(func(t *testing.T, a, b string) {
		var list figures
		list.add(gauge, "a", "seconds", "Help.", 1.5, label{"a", a}, label{"b", b})
		var out bytes.Buffer
		if err := writeOpenMetrics(&out, list); err != nil {
			t.Fatal(err)
		}
		got := scraped(t, out.String())
		valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		if v := got.one(t, "ceiling_a_seconds", "a", valid(a), "b", valid(b)); v != 1.5 {
			t.Errorf("%q %q: %v", a, b, v)
		}
	})
}

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
