package export

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ceiling/internal/hist"
	"ceiling/internal/secret"
	"ceiling/record"
)

// shown redacts a target, a method and a URL.
func shown(text string) string { return secret.Plain().Shell(text) }

// figuresOf converts a finished run to metrics. It omits values that were not measured.
func figuresOf(s *Source) figures {
	var f figures
	r := s.Run
	labels := []label{{"run", r.ID}, {"target", shown(r.Target)}, {"mode", r.Load.Mode}, {"engine", r.Load.Engine},
		{"host", r.Environment.Host}, {"version", r.Environment.Version}}
	if r.Load.Streams != nil { // "requests" below are messages here
		labels = append(labels, label{"unit", r.Spec.Kind.Many()})
	}
	f.add(info, "run", "", "The run and its target.", 1, labels...)
	f.add(info, "verdict", "", "What the run proves and what limited it.", 1,
		label{"outcome", string(r.Verdict.Outcome)}, label{"bottleneck", string(r.Verdict.Bottleneck)})
	f.add(gauge, "started_timestamp", "seconds", "When the measured window opened, since 1970.", float64(r.Started.UnixNano())/1e9)
	f.add(gauge, "elapsed", "seconds", "Time that the counted requests took.", r.ElapsedS)
	f.requests(r)
	f.latencies(s)
	f.machines(r)
	for i := range r.Agents {
		f.agent(&r.Agents[i])
	}
	return f
}

// agent adds the metrics of one of several agents.
func (f *figures) agent(a *record.Agent) {
	name := func(more ...label) []label { return append([]label{{"agent", a.Name}}, more...) }
	lost := 0.0
	if a.Lost != "" {
		lost = 1
	}
	f.add(gauge, "agent_lost", "", "1 where nothing more came of the agent before the end.", lost, name()...)
	if a.Clock.Pings > 0 {
		f.add(gauge, "agent_clock_error", "seconds", "Bound of the error of the agent's clock.", float64(a.Clock.ErrorNs)/1e9, name()...)
	}
	if !a.Loads {
		return
	}
	f.add(gauge, "agent_share", "ratio", "Part of the run that the agent was given.", a.Share.Fraction(), name()...)
	if a.StartSkewNs >= 0 { // otherwise it sent nothing, or its start is unknown
		f.add(gauge, "agent_start_skew", "seconds", "First request of the agent, after the common start.", float64(a.StartSkewNs)/1e9, name()...)
	}
	f.add(gauge, "agent_connections", "", "Connections of the agent established when the window opened.", float64(a.Load.Established),
		name()...)
	f.add(counter, "agent_requests_completed", "", "Requests completed, by agent.", float64(a.Requests.Completed), name()...)
	f.add(counter, "agent_requests_failed", "", "Requests failed, by agent.", float64(a.Requests.Failed), name()...)
	f.add(gauge, "agent_completed_per_second", "", "Requests completed over the elapsed time, by agent.", a.Rate.CompletedPerS, name()...)
	if a.Generator.BusiestWorker > 0 {
		f.add(gauge, "agent_busiest_worker", "ratio", "Share of the window that the agent's busiest worker ran on a CPU.",
			a.Generator.BusiestWorker, name()...)
	}
	if q := &a.Latency.Response; q.Count > 0 {
		for _, p := range []struct {
			name string
			ns   int64
		}{{"0.5", q.P50Ns}, {"0.9", q.P90Ns}, {"0.99", q.P99Ns}, {"1", q.MaxNs}} {
			f.add(gauge, "agent_response_quantile", "seconds", "Response time of the agent's own requests: quantiles, which cannot be merged.",
				float64(p.ns)/1e9, name(label{"quantile", p.name})...)
		}
	}
}

func (f *figures) requests(r *record.Run) {
	q := &r.Requests
	f.add(counter, "requests_sent", "", inUnit("Requests in flight when the window opened or sent within it.", r.Spec.Kind.Many()), float64(q.Sent))
	f.add(counter, "requests_completed", "", inUnit("Requests answered to the last byte, whatever the status.", r.Spec.Kind.Many()), float64(q.Completed))
	f.add(counter, "requests_failed", "", inUnit("Requests without a complete answer.", r.Spec.Kind.Many()), float64(q.Failed))
	f.add(gauge, "requests_in_flight", "", inUnit("Requests without an answer.", r.Spec.Kind.Many()), float64(q.InFlight))
	if r.Load.Mode == "open" {
		f.add(counter, "requests_unsent", "", inUnit("Requests that were due and never sent.", r.Spec.Kind.Many()), float64(q.Unsent))
		f.add(gauge, "asked_per_second", "", inUnit("Mean asked rate of the open loop, requests per second.", r.Spec.Kind.Many()), r.Load.TargetPerS)
	}
	f.add(gauge, "completed_per_second", "", inUnit("Requests completed over the elapsed time.", r.Spec.Kind.Many()), r.Rate.CompletedPerS)
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		f.add(counter, "responses", "", "Responses by status code.", float64(r.Statuses[status]), label{"status", status})
	}
	for _, e := range r.Errors {
		f.add(counter, "errors", "", "Errors by phase and cause; in phase status the request is completed.", float64(e.Count),
			label{"phase", e.Phase}, label{"cause", e.Cause}, label{"before_window", fmt.Sprint(e.BeforeWindow)})
	}
	for i, t := range r.ByTarget {
		// Two targets may have the same text; their position distinguishes them.
		labels := []label{{"target", shown(t.Target)}, {"place", fmt.Sprint(i + 1)}}
		f.add(counter, "target_requests_completed", "", "Requests completed, by target.", float64(t.Completed), labels...)
		f.add(counter, "target_requests_failed", "", "Requests failed, by target.", float64(t.Failed), slices.Clone(labels)...)
	}
	f.add(counter, "read", "bytes", "Bytes read: heads, framing and bodies.", float64(r.Bytes.Read))
	f.add(counter, "written", "bytes", "Bytes written: heads, framing and bodies.", float64(r.Bytes.Written))
	f.add(gauge, "connections", "", "Connections requested, and those established when the window opened.", float64(r.Load.Connections),
		label{"state", "asked"})
	f.add(gauge, "connections", "", "", float64(r.Load.Established), label{"state", "established"})
}

// latencies adds the three latencies: quantiles from the run's document, and a histogram if its
// file exists.
func (f *figures) latencies(s *Source) {
	about := map[string]string{
		"response": "Response time: done less due", "service": "Service time: done less sent", "lag": "Lag: sent less due",
	}
	for _, of := range Latencies() {
		q, err := s.quantiles(of)
		if err != nil || q.Count == 0 {
			continue
		}
		h, err := s.Histogram(of)
		if err != nil {
			s.Problems = append(s.Problems, err.Error())
		} else {
			own := hist.FromHDR(h)
			f.addPoint(histogram, of, "seconds", about[of]+".", point{spread: spreadOf(own, q)})
		}
		for _, p := range []struct {
			name string
			ns   int64
		}{{"0", q.MinNs}, {"0.5", q.P50Ns}, {"0.9", q.P90Ns}, {"0.99", q.P99Ns}, {"0.999", q.P999Ns}, {"1", q.MaxNs}} {
			f.add(gauge, of+"_quantile", "seconds", about[of]+", quantiles of the whole run within 0.2 %.", float64(p.ns)/1e9,
				label{"quantile", p.name})
		}
	}
}

// spreadOf counts a histogram by boundsNs; values within 0.4 % of a bound may land on the wrong
// side. The sum is the exact one from the document.
func spreadOf(h *hist.Hist, q *record.Quantiles) *spread {
	s := &spread{count: h.Count(), sum: q.MeanNs * float64(q.Count) / 1e9}
	var below uint64
	for _, ns := range boundsNs {
		n := h.CountAtMost(ns)
		s.bounds = append(s.bounds, float64(ns)/1e9)
		s.counts = append(s.counts, n-below)
		below = n
	}
	s.counts = append(s.counts, h.Count()-below)
	return s
}

func (f *figures) machines(r *record.Run) {
	g := &r.Generator
	if t := r.Load.TLS; t != nil {
		f.handshakes(t.Count(), t.CPUNs)
	}
	if !r.Unfinished {
		f.add(counter, "generator_cpu", "seconds", "CPU time of the generator's process in the window.", float64(g.UserNs)/1e9,
			label{"mode", "user"})
		f.add(counter, "generator_cpu", "seconds", "", float64(g.SystemNs)/1e9, label{"mode", "system"})
		f.add(gauge, "generator_busiest_worker", "ratio", "Share of the window that the busiest worker ran on a CPU.", g.BusiestWorker)
	}
	if g.RunDelay >= 0 {
		f.add(gauge, "generator_run_delay", "ratio", "Largest share of the window that a worker waited for a CPU.", g.RunDelay)
	}
	if times := r.Headroom(); times > 0 {
		f.add(gauge, "generator_headroom", "ratio", "Rate that this generator could reach over the rate it ran at.", times)
	}
	if r.Subject != nil {
		var ns int64
		for _, p := range r.Subject.Processes {
			ns += p.CPUNs
		}
		f.add(counter, "subject_cpu", "seconds", "CPU time of the server's processes in the window.", float64(ns)/1e9)
	}
	for _, st := range r.Verdict.Stations {
		f.add(gauge, "station", "ratio", "Share of a request's time spent waiting at each place.", st.Share,
			label{"station", cmp.Or(st.Name, "unnamed")})
	}
}

// inUnit replaces requests with messages in a help text if the run counts those.
func inUnit(text, counts string) string {
	counts = cmp.Or(counts, "requests")
	return strings.NewReplacer("requests", counts, "Requests", strings.ToUpper(counts[:1])+counts[1:]).Replace(text)
}
