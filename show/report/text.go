// Package report shows what a record holds: as text for a terminal here, in
// other forms beside it. It computes nothing that the record could not be asked
// for.
package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/cores"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// column is the width of the names at the left of a line.
const column = 16

// Text writes a run so that a person reads it in five seconds: rate, times,
// what went wrong, what the generator cost, the verdict. The lines
// Requests/sec: and Transfer/sec: stand at column 0 with plain figures, for the
// scripts that look for them.
func Text(w io.Writer, r *record.Run) error {
	p := &printer{w: w}
	p.line("%s   %s", targetLine(r), loadLine(r))
	if r.Unfinished {
		p.line("This run was cut off; the figures below come from its series up to then.")
	}
	if r.Interrupted {
		p.line("Interrupted: the figures cover the time until then.")
	}
	p.line("")
	p.line("Requests/sec: %14.2f%s", r.Rate.CompletedPerS, spread(r))
	p.line("Transfer/sec: %14s   %s read, %s written in %s", unit.FormatTransfer(transfer(r)),
		unit.FormatBytesSI(int64(r.Bytes.Read)), unit.FormatBytesSI(int64(r.Bytes.Written)), seconds(r.ElapsedS))
	p.line("")
	latency(p, r)
	p.line("")
	p.fact("requests", requestsLine(r))
	if r.Load.TLS != nil {
		p.fact("tls", tlsLine(r))
	}
	p.fact("statuses", statusLine(r.Statuses))
	for i, text := range errorLines(r) {
		p.fact([]string{"errors", ""}[min(i, 1)], text)
	}
	for _, t := range r.ByTarget {
		p.fact("", fmt.Sprintf("%-40s %9s done  p50 %-9s p99 %-9s %s", secret.Plain().Shell(t.Target), unit.FormatCount(int64(t.Completed)),
			unit.FormatNs(t.Response.P50Ns), unit.FormatNs(t.Response.P99Ns), statusLine(t.Statuses)))
	}
	p.fact("generator", generatorLine(r))
	if text := Headroom(r); text != "" {
		p.fact("headroom", text)
	}
	if text := loneLine(r); text != "" {
		p.fact("lone", text)
	}
	if text := Placement(r); text != "" {
		p.fact("cpus", text)
	}
	agents(p, r)
	p.line("")
	verdict(p, &r.Verdict)
	profiling(p, r)
	return p.err
}

// printer keeps the first error of a sequence of writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// fact writes a named fact; a long one goes on under itself.
func (p *printer) fact(name, text string) {
	p.line("%-*s%s", column, name, text)
}

func targetLine(r *record.Run) string {
	if n := len(r.Spec.Targets); n > 1 {
		return fmt.Sprintf("%s and %d more", secret.Plain().URL(r.Target), n-1)
	}
	return secret.Plain().URL(r.Target)
}

func loadLine(r *record.Run) string {
	l := &r.Load
	parts := []string{unit.Plural(l.Connections, "connection", "connections")}
	if l.Established != l.Connections {
		parts[0] += fmt.Sprintf(" (%s established)", unit.FormatCount(int64(l.Established)))
	}
	if l.Pipelining > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", l.Pipelining))
	}
	if r.Spec.NewConnections {
		parts = append(parts, "a new connection for each request")
	}
	switch l.Mode {
	case "open":
		parts = append(parts, fmt.Sprintf("open loop at %s req/s, %s arrivals", unit.FormatCount(int64(l.TargetPerS+0.5)), arrivals(r)))
	default:
		parts = append(parts, "closed loop")
	}
	parts = append(parts, seconds(r.ElapsedS))
	if r.WarmupS > 0 {
		parts[len(parts)-1] += " after " + seconds(r.WarmupS) + " of warm-up"
	}
	parts = append(parts, fmt.Sprintf("%s, %s", l.Engine, unit.Plural(l.Threads, "thread", "threads")))
	if n := Loading(r); n > 0 {
		parts = append(parts, unit.Plural(n, "agent", "agents"))
	}
	return strings.Join(parts, " · ")
}

func arrivals(r *record.Run) string {
	if r.Load.Arrivals != "" {
		return r.Load.Arrivals
	}
	return "constant"
}

func seconds(s float64) string { return unit.FormatNs(int64(s * float64(time.Second))) }

func transfer(r *record.Run) unit.BytesPerSecond {
	if r.ElapsedS <= 0 {
		return 0
	}
	return unit.BytesPerSecond(float64(r.Bytes.Read) / r.ElapsedS)
}

// spread says how even the rate was, over samples of one width.
func spread(r *record.Run) string {
	s := &r.Rate.Spread
	if s.Samples < 2 {
		return ""
	}
	text := fmt.Sprintf("   min %s · median %s · max %s over %d × %s",
		unit.FormatSI(s.MinPerS), unit.FormatSI(s.P50PerS), unit.FormatSI(s.MaxPerS), s.Samples, seconds(s.WidthS))
	if s.Late > 0 {
		text += fmt.Sprintf(", %d late", s.Late)
	}
	return text
}

func latency(p *printer, r *record.Run) {
	p.line("%-*s%10s%10s%10s%10s%10s%10s", column, "", "p50", "p90", "p99", "p99.9", "max", "mean")
	for _, row := range []struct {
		name string
		q    *record.Quantiles
	}{{"response", &r.Latency.Response}, {"service", &r.Latency.Service}, {"lag", &r.Latency.Lag}} {
		if row.q.Count == 0 {
			p.line("%-*s%10s", column, row.name, "not measured")
			continue
		}
		p.line("%-*s%10s%10s%10s%10s%10s%10s", column, row.name,
			unit.FormatNs(row.q.P50Ns), unit.FormatNs(row.q.P90Ns), unit.FormatNs(row.q.P99Ns),
			unit.FormatNs(row.q.P999Ns), unit.FormatNs(row.q.MaxNs), unit.FormatNs(int64(row.q.MeanNs)))
	}
}

func requestsLine(r *record.Run) string {
	q := &r.Requests
	text := fmt.Sprintf("%s sent = %s completed + %s failed + %s in flight", unit.FormatCount(int64(q.Sent)),
		unit.FormatCount(int64(q.Completed)), unit.FormatCount(int64(q.Failed)), unit.FormatCount(int64(q.InFlight)))
	if q.Unsent > 0 {
		text += fmt.Sprintf(" · %s of %s due were never sent", unit.FormatCount(int64(q.Unsent)), unit.FormatCount(int64(q.Due)))
	}
	if r.Load.Reconnects > 0 {
		text += fmt.Sprintf(" · %s reconnects", unit.FormatCount(int64(r.Load.Reconnects)))
	}
	return text
}

// tlsLine says what the connections agreed on, and what their handshakes took.
func tlsLine(r *record.Run) string {
	t := r.Load.TLS
	parts := []string{t.Version + ", " + t.Cipher}
	if t.Protocol != "" {
		parts[0] += ", " + t.Protocol
	}
	if t.Resumed {
		parts[0] += ", resumed"
	}
	for _, h := range []struct {
		q    *record.Quantiles
		when string
	}{{&t.Before, "before the window"}, {&t.Handshakes, "in the window"}} {
		if h.q.Count == 0 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s: p50 %s, p99 %s", unit.Plural(int(h.q.Count), "handshake", "handshakes"), h.when,
			unit.FormatNs(h.q.P50Ns), unit.FormatNs(h.q.P99Ns)))
	}
	if n := t.Handshakes.Count; n > 0 && r.ElapsedS > 0 {
		parts = append(parts, fmt.Sprintf("%s handshakes/s, %s of the generator's CPU each", unit.FormatSI(float64(n)/r.ElapsedS),
			unit.FormatNs(t.CPUNs/int64(n))))
	}
	return strings.Join(parts, " · ")
}

func statusLine(statuses map[string]uint64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(statuses)) {
		parts = append(parts, fmt.Sprintf("%s × %s", code, unit.FormatCount(int64(statuses[code]))))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " · ")
}

// maxErrors bounds the lines of errors; the record has them all.
const maxErrors = 8

func errorLines(r *record.Run) []string {
	var lines []string
	for _, e := range r.Errors {
		if len(lines) == maxErrors {
			return append(lines, fmt.Sprintf("%d more with --json", len(r.Errors)-maxErrors))
		}
		text := fmt.Sprintf("%s: %s × %s", e.Phase, e.Cause, unit.FormatCount(int64(e.Count)))
		if e.BeforeWindow {
			text += " before the window"
		}
		lines = append(lines, text)
	}
	if len(lines) == 0 {
		return []string{"none"}
	}
	return lines
}

func generatorLine(r *record.Run) string {
	g := &r.Generator
	if len(g.Workers) == 0 {
		return "not measured"
	}
	parts := []string{
		unit.FormatNs(int64(g.CPUNsPerRequest)) + " CPU/request",
		fmt.Sprintf("busiest thread: %.0f%% running", 100*g.BusiestWorker),
	}
	if g.RunDelay >= 0 {
		parts[1] += fmt.Sprintf(", %.0f%% runnable (waiting for CPU)", 100*g.RunDelay)
	} else {
		parts[1] += ", run-queue delay not measured"
	}
	if g.CoalesceNs > 0 {
		parts = append(parts, "batches completions for up to "+unit.FormatNs(g.CoalesceNs))
	}
	return strings.Join(parts, " · ")
}

// Headroom says how many times its rate the generator could have reached and
// how that is known, or why it is not. "" where the record says neither.
func Headroom(r *record.Run) string {
	g := &r.Generator
	if g.Headroom > 0 {
		text := fmt.Sprintf("the generator can reach %.1f× this rate", g.Headroom)
		if g.HeadroomBy != "" {
			text += ", " + g.HeadroomBy
		}
		return text
	}
	var why []string
	for _, n := range r.NotMeasured {
		if n.What != record.GeneratorHeadroom {
			continue
		}
		if len(r.Agents) > 0 && n.Host != "" {
			why = append(why, n.Host+": "+n.Why)
		} else {
			why = append(why, n.Why)
		}
	}
	if len(why) == 0 {
		return ""
	}
	return "unknown: " + strings.Join(why, "; ")
}

// loneLine says what the requests took that were alone; "" where there were none.
func loneLine(r *record.Run) string {
	l := r.Lone
	if l == nil {
		return ""
	}
	text := fmt.Sprintf("%s one at a time before the load, over %s", unit.Plural(l.Sent, "request", "requests"),
		unit.Plural(l.Connections, "connection", "connections"))
	if n := len(l.ServiceNs) - l.Cold; n > 0 {
		q := &l.Service
		text += fmt.Sprintf(": p50 %s, %s–%s without the first %d", unit.FormatNs(q.P50Ns), unit.FormatNs(q.MinNs), unit.FormatNs(q.MaxNs),
			l.Cold)
	}
	if l.Failed > 0 {
		text += fmt.Sprintf(" · %d failed", l.Failed)
	}
	if a := AtOnce(r); a != "" {
		text += " · " + a
	}
	return text
}

// AtOnce is how many requests were worked on at a time; "" where lone requests do
// not tell.
func AtOnce(r *record.Run) string {
	a := r.Verdict.Concurrency
	if a == nil {
		return ""
	}
	return fmt.Sprintf("%.3g of %.0f requests processed at a time (95%% CI %.3g–%.3g)", a.Requests, a.Of, a.Low, a.High)
}

// Placement is which CPUs generator and server ran on, where a run on this
// machine had some for either: "generator on CPU 0, server on CPU 1". "" where
// the scheduler was free, or the sides are not known to be apart.
func Placement(r *record.Run) string {
	if len(r.Agents) > 0 || r.Spec.PinGenerator == "" || r.Subject == nil {
		return ""
	}
	generator, err := spec.ParseCPUList(r.Spec.PinGenerator)
	if err != nil {
		return ""
	}
	var server []int
	for _, p := range r.Subject.Processes {
		// A process is read when it is found, after it was pinned.
		cpus, err := spec.ParseCPUList(p.CPUsAllowed)
		if err != nil {
			return ""
		}
		server = append(server, cpus...)
	}
	slices.Sort(server)
	server = slices.Compact(server)
	if len(server) == 0 || len(cores.Both(generator, server)) > 0 {
		return ""
	}
	return cores.Split{Generator: generator, Server: server}.String()
}

// maxEvidence bounds the lines of evidence, for a person who has five seconds.
const maxEvidence = 5

// verdict closes the text: what the run proves.
func verdict(p *printer, v *record.Verdict) {
	if len(v.Stations) > 0 {
		var parts []string
		for _, s := range v.Stations {
			parts = append(parts, fmt.Sprintf("%s %.0f%%", s.Name, 100*s.Share))
		}
		p.fact("where time goes", strings.Join(parts, " · "))
	}
	p.fact("verdict", string(v.Outcome))
	p.fact("bottleneck", string(v.Bottleneck)+": "+prose.Reason(v))
	for i, e := range v.Evidence {
		if i == maxEvidence && len(v.Evidence) > maxEvidence+1 {
			p.fact("", fmt.Sprintf("%d more with --json", len(v.Evidence)-maxEvidence))
			break
		}
		p.fact([]string{"evidence", ""}[min(i, 1)], prose.Text(e.Says))
	}
	for i, e := range v.Against {
		p.fact([]string{"against", ""}[min(i, 1)], prose.Text(e.Says))
	}
	if v.NextBottleneck != nil {
		p.fact("next bottleneck", prose.Text(v.NextBottleneck.Says))
	}
	for i, d := range v.Caveats {
		p.fact([]string{"caveats", ""}[min(i, 1)], prose.Text(d))
	}
	if v.Next != nil {
		p.fact("next", prose.Sentence(v.Next))
	}
}
