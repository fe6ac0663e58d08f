// Package report prints the content of a record as text for a terminal, and in a few other forms.
// It computes nothing beyond the record.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/secret"
	"ceiling/internal/unit"
	"ceiling/measure/cores"
	"ceiling/record"
	"ceiling/show/layout"
	"ceiling/show/path"
	"ceiling/verdict/prose"
)

// linesMost is the maximum number of lines of a run without -v: a screen of 24, minus the prompt
// and the line that says where it is saved.
const linesMost = 22

// Text writes a run: setup, response times, where the time goes, bottleneck, and last, where the
// reader looks first, rate and verdict. It has at most 22 lines and drops the least important; a
// verbose layout has all. The lines Requests/sec: and Transfer/sec: start at column 0 with plain
// figures, for scripts that parse them.
func Text(w io.Writer, r *record.Run, l Layout) error {
	if r.Load.Established == 0 && r.Requests.Sent == 0 && r.Verdict.Next != nil && !l.Verbose && !r.Unfinished {
		p := &printer{w: w, Layout: l}
		p.line("%s", p.Fold(fmt.Sprintf("%s: %s; %s", r.Verdict.Outcome, prose.Sentence(r.Verdict.Because), prose.Sentence(r.Verdict.Next))))
		return p.err
	}
	blocks := append(l.head(r), l.block(0, func(p *printer) { latency(p, r) }))
	blocks = append(blocks, l.facts(r)...)
	blocks = append(blocks, l.block(1, func(p *printer) { agents(p, r) }))
	blocks = append(blocks, l.pathOf(r)...)
	blocks = append(blocks, l.verdict(&r.Verdict)...)
	profiles := l.block(0, func(p *printer) { profiling(p, r) }) // requested by the user
	blocks = append(blocks, profiles)
	blocks = append(blocks, l.block(0, func(p *printer) {
		p.line("")
		p.line("Transfer/sec: %14s   %s read, %s written", unit.FormatTransfer(transfer(r)),
			unit.FormatBytesSI(int64(r.Bytes.Read)), unit.FormatBytesSI(int64(r.Bytes.Written)))
		p.line("%s%s", p.Bold(fmt.Sprintf("%-13s %14.2f", perSecond(r), r.Rate.CompletedPerS)), spread(p, r))
		p.line("%s", p.Bold(fmt.Sprintf("%-*s%s", column, "verdict", concluded(&r.Verdict))))
	}))
	most := linesMost + len(profiles.lines)
	if l.Verbose {
		most = math.MaxInt
	}
	return l.write(w, blocks, most)
}

// concluded summarises the verdict.
func concluded(v *record.Verdict) string {
	if v.Outcome == record.Invalid {
		return string(v.Outcome) + " · do not use these numbers"
	}
	text := string(v.Outcome) + " · " + string(v.Bottleneck)
	if v.Outcome == record.Fail && v.Bottleneck == record.TargetRate {
		text = string(v.Outcome) + " · SLO missed at the target rate"
	}
	if n := len(v.Caveats); n > 0 { // counted here: the caveats above may not fit
		text += " · " + unit.Plural(n, "caveat", "caveats")
	}
	return text
}

// head describes the setup and the target.
func (l Layout) head(r *record.Run) []block {
	blocks := []block{l.block(0, func(p *printer) { p.text(0, p.Bold(targetLine(r))) }), l.fact(0, "", LoadLine(r))}
	blocks[1].plain = true
	blocks[1].lines = blocks[1].written(l)
	return append(blocks, l.block(0, func(p *printer) {
		if r.Unfinished {
			p.text(0, "This run was cut off; the figures below come from its series up to then.")
		}
		if r.Interrupted {
			p.text(0, "Interrupted: the figures cover the time until then.")
		}
		p.line("")
	}))
}

// facts describes the responses, the generator and the machine.
func (l Layout) facts(r *record.Run) []block {
	fact := l.fact
	var blocks []block
	if l.Verbose {
		blocks = append(blocks, fact(0, r.Spec.Kind.Many(), requestsLine(r)))
		if r.Load.Streams == nil {
			blocks = append(blocks, fact(0, "statuses", statusLine(r.Statuses)))
		}
	} else {
		blocks = append(blocks, fact(0, r.Spec.Kind.Many(), answeredLine(r)))
	}
	if r.Load.Streams != nil {
		blocks = append(blocks, fact(1, "WebSockets", streamsLine(r)))
	}
	if e := r.Load.Events; e != nil {
		blocks = append(blocks, fact(1, "events", fmt.Sprintf("%s in %s responses · %s/s · %.1f a response", unit.FormatCount(int64(e.Count)),
			unit.FormatCount(int64(e.Responses)), unit.FormatSI(e.PerS), float64(e.Count)/float64(e.Responses))))
	}
	if r.Load.TLS != nil {
		blocks = append(blocks, fact(3, "tls", tlsLine(r)))
		if line := handshakeLine(r); line != "" {
			blocks = append(blocks, fact(3, "handshakes", line))
		}
	}
	if r.Load.HTTP2 != nil {
		blocks = append(blocks, fact(3, "http2", http2Line(r)))
	}
	for i, text := range errorLines(r) {
		blocks = append(blocks, fact(min(i, 1), []string{"errors", ""}[min(i, 1)], text))
	}
	if len(r.Errors) == 0 && l.Verbose {
		blocks = append(blocks, fact(0, "errors", "none"))
	}
	if text := deviations(r); text != "" && l.Verbose {
		blocks = append(blocks, fact(0, "deviation", text))
	}
	blocks = append(blocks, l.block(2, func(p *printer) { targets(p, r) }), fact(0, "generator", generatorLine(r, l.Verbose)))
	if text := Headroom(r); text != "" && l.Verbose {
		blocks = append(blocks, fact(0, "headroom", text))
	}
	if r.Subject != nil && len(r.Subject.Processes) > 0 {
		blocks = append(blocks, l.observing(r.Subject.Observing))
	}
	if text := unloadedLine(r); text != "" && l.Verbose {
		blocks = append(blocks, fact(0, "unloaded", text))
	}
	if d := r.Database; d != nil {
		text := d.Brief()
		if l.Verbose {
			text = d.String()
		}
		blocks = append(blocks, fact(4, "database", text))
	}
	if l.Verbose {
		for i := range r.Verdict.Hosts {
			u := &r.Verdict.Hosts[i]
			blocks = append(blocks, fact(0, []string{"CPU time", ""}[min(i, 1)], fmt.Sprintf("CPU %s (%s): %s", u.CPUs, u.Name(), u)))
		}
		for i := range r.Verdict.Disks {
			blocks = append(blocks, fact(0, []string{"disks", ""}[min(i, 1)], diskLine(&r.Verdict.Disks[i])))
		}
	}
	if text := Placement(r); text != "" {
		blocks = append(blocks, fact(4, "cpus", text))
	}
	return blocks
}

// observing says what observing costs the server; nil: that was not measured.
func (l Layout) observing(o *record.Observing) block {
	switch {
	case o == nil:
		return l.fact(5, "observing", "its cost was not measured: ceiling doctor --calibrate")
	case l.Verbose:
		return l.fact(0, "observing", o.String())
	}
	return l.fact(4, "observing", o.Brief())
}

// targets writes a table of the response times of several targets.
func targets(p *printer, r *record.Run) {
	if len(r.ByTarget) == 0 {
		return
	}
	p.table(TargetTable(r.ByTarget))
}

func targetLine(r *record.Run) string {
	if n := len(r.Spec.Targets); n > 1 {
		return fmt.Sprintf("%s and %d more", secret.Plain().URL(r.Target), n-1)
	}
	return secret.Plain().URL(r.Target)
}

// LoadLine summarises the load.
func LoadLine(r *record.Run) string {
	l := &r.Load
	parts := []string{unit.Plural(l.Connections, "connection", "connections")}
	if l.Established != l.Connections {
		parts[0] += fmt.Sprintf(" (%s established)", unit.FormatCount(int64(l.Established)))
	}
	if l.Pipelining > 1 {
		parts = append(parts, fmt.Sprintf("%d in flight on each", l.Pipelining))
	}
	if via := r.Spec.Proxy.Via(); via != "" {
		parts = append(parts, "through the proxy "+via)
	}
	if text := r.Spec.NewConnections.Says(r.Spec.Kind); text != "" {
		parts = append(parts, text)
	}
	if l.Mode == "open" {
		asked := unit.FormatCount(int64(l.TargetPerS + 0.5))
		how := arrivals(r) + " arrivals"
		switch {
		case arrivals(r) == spec.Logged:
			how = "on average, as in the log"
		case !r.Spec.Rate.IsZero() && !r.Spec.Rate.Constant():
			asked = fmt.Sprintf("%s (%s on average)", r.Spec.Rate, asked)
		}
		parts = append(parts, fmt.Sprintf("open loop at %s %s, %s", asked, r.Spec.Kind.PerSecond(), how))
	} else {
		parts = append(parts, "closed loop")
	}
	parts = append(parts, seconds(r.ElapsedS))
	if r.WarmupS > 0 {
		parts[len(parts)-1] += " after " + seconds(r.WarmupS) + " of warm-up"
	}
	if l.Threads > 0 { // otherwise it was killed before that was recorded
		parts = append(parts, fmt.Sprintf("%s, %s", l.Engine, unit.Plural(l.Threads, "thread", "threads")))
	}
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

func transfer(r *record.Run) unit.BytesPerSecond { return unit.BytesPerSecond(record.ReadPerS(r)) }

// spread describes how steady the rate was, over samples of one width.
func spread(p *printer, r *record.Run) string {
	s := &r.Rate.Spread
	if s.Samples < 2 {
		return ""
	}
	ends, over := "   "+unit.Range(unit.FormatSI(s.MinPerS), "–", unit.FormatSI(s.MaxPerS)), fmt.Sprintf(" over %d × %s", s.Samples, seconds(s.WidthS))
	median, late := fmt.Sprintf(", median %s,", unit.FormatSI(s.P50PerS)), ""
	if s.Late > 0 {
		late = fmt.Sprintf(", %d late", s.Late)
	}
	for _, text := range []string{ends + median + over + late, ends + over + late, ends + over} {
		if layout.TextWidth(text) <= p.Width()-rateWidth {
			return text
		}
	}
	return ends
}

// deviations describes how far times and rates are from their means, as wrk does, and the quantiles
// that the table has no room for.
func deviations(r *record.Run) string {
	var parts []string
	q := &r.Latency.Response
	if q.StdevNs > 0 {
		parts = append(parts, fmt.Sprintf("p75 %s, p95 %s, stdev %s (%s within)", q.Text(.75), q.Text(.95), unit.FormatNs(int64(q.StdevNs+.5)),
			unit.Percent(q.WithinStdev)))
	}
	if s := &r.Rate.Spread; s.StdevPerS > 0 {
		parts = append(parts, fmt.Sprintf("rate: stdev %s %s (%s within)", unit.FormatSI(s.StdevPerS), r.Spec.Kind.PerSecond(), unit.Percent(s.WithinStdev)))
	}
	return strings.Join(parts, " · ")
}

// rateWidth is the width of "Requests/sec:" and its figure.
const rateWidth = 28

// latency writes the table of latencies. The generator's lag appears only in a verbose layout; in
// a closed loop a request is sent when it is due, so response and service are equal.
func latency(p *printer, r *record.Run) {
	t := layout.Table{Columns: []layout.Column{{}, {Name: "p50", Right: true}, {Name: "p90", Right: true, Drop: 3}, {Name: "p99", Right: true},
		{Name: "p99.9", Right: true, Drop: 1}, {Name: "max", Right: true}, {Name: "mean", Right: true, Drop: 2}}}
	l := &r.Latency
	if l.Response.Count == 0 {
		p.fact("response", "not measured")
		return
	}
	add := func(name, of string, q *record.Quantiles) {
		// Align with the names of the facts below.
		cells := []string{fmt.Sprintf("%-*s", column-layout.Gap, name), "", "", "", "", "", ""}
		if q.Count == 0 {
			cells[1] = "not measured"
		} else {
			for i, share := range []float64{.5, .9, .99, .999, 1} {
				cells[i+1] = q.Text(share)
			}
			cells[6] = q.MeanText(l.Waited(of))
		}
		t.Rows = append(t.Rows, cells)
	}
	add("response", "response", &l.Response)
	if l.FirstByte != nil && (p.Verbose || !l.FirstByte.Near(&l.Response)) {
		add("first byte", "first_byte", l.FirstByte)
	}
	if l.FirstEvent != nil {
		add("first event", "first_event", l.FirstEvent)
	}
	if p.Verbose || r.Load.Mode == "open" {
		add("service", "service", &l.Service)
	}
	if p.Verbose {
		add("lag", "lag", &l.Lag)
	}
	p.table(&t)
}

// answeredLine summarises the request outcomes.
func answeredLine(r *record.Run) string {
	q := &r.Requests
	answered := statusLine(r.Statuses)
	if r.Load.Streams != nil || r.Unfinished && len(r.Statuses) == 0 {
		answered = unit.FormatCount(int64(q.Completed)) + " answered"
	}
	text := fmt.Sprintf("%s · %s failed · %s in flight%s", answered, unit.FormatCount(int64(q.Failed)),
		unit.FormatCount(int64(q.InFlight)), Oldest(r))
	return text + missed(r)
}

// Oldest says how long the oldest request in flight had waited, if the figures depend on it.
func Oldest(r *record.Run) string {
	w := r.Latency.Waited("service")
	if r.Latency.Response.BoundFrom == 0 || w.Count == 0 {
		return ""
	}
	return ", the oldest for " + unit.FormatNs(w.OldestNs)
}

func requestsLine(r *record.Run) string {
	q := &r.Requests
	text := fmt.Sprintf("%s sent = %s completed + %s failed + %s in flight%s", unit.FormatCount(int64(q.Sent)),
		unit.FormatCount(int64(q.Completed)), unit.FormatCount(int64(q.Failed)), unit.FormatCount(int64(q.InFlight)), Oldest(r))
	return text + missed(r)
}

// missed describes deviations from the plan.
func missed(r *record.Run) (text string) {
	if q := &r.Requests; q.Unsent > 0 {
		text += fmt.Sprintf(" · %s of %s due were never sent", unit.FormatCount(int64(q.Unsent)), unit.FormatCount(int64(q.Due)))
	}
	if r.Load.Reconnects > 0 {
		text += fmt.Sprintf(" · %s reconnects", unit.FormatCount(int64(r.Load.Reconnects)))
	}
	return text
}

// tlsLine describes the negotiated TLS parameters, and the cost of the handshakes.
func tlsLine(r *record.Run) string {
	t := r.Load.TLS
	parts := []string{t.Version + ", " + t.Cipher}
	if t.KeyExchange != "" {
		parts[0] += ", " + t.KeyExchange
	}
	if t.Protocol != "" {
		parts[0] += ", " + t.Protocol
	}
	if t.Resumed {
		parts[0] += ", resumed"
	}
	for _, h := range []struct {
		q          *record.Quantiles
		kind, when string
	}{
		{&t.Before, "", "before the window"}, {t.ResumedBefore, "resumed ", "before the window"},
		{&t.Handshakes, "", "in the window"}, {t.Resumptions, "resumed ", "in the window"},
	} {
		if h.q == nil || h.q.Count == 0 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %s: p50 %s, p99 %s", unit.Plural(int(h.q.Count), h.kind+"handshake", h.kind+"handshakes"), h.when,
			unit.FormatNs(h.q.P50Ns), unit.FormatNs(h.q.P99Ns)))
	}
	return strings.Join(parts, " · ")
}

// http2Line describes HTTP/2: the server's settings, the frames of the window, and how long flow
// control held back request bodies.
func http2Line(r *record.Run) string {
	h := r.Load.HTTP2
	streams := "no limit of streams"
	if h.MaxStreams < 1<<32-1 {
		streams = unit.Plural(int(h.MaxStreams), "stream", "streams") + " allowed"
	}
	n := func(count uint64) string { return unit.FormatCount(int64(count)) }
	parts := []string{
		fmt.Sprintf("%s, %s", r.Load.Protocol, streams),
		fmt.Sprintf("frames sent: %s headers, %s data", n(h.Sent.Headers), n(h.Sent.Data)),
		fmt.Sprintf("received: %s headers, %s data", n(h.Received.Headers), n(h.Received.Data)),
	}
	if k := h.Received.ResetStream; k > 0 {
		parts = append(parts, n(k)+" RST_STREAM received")
	}
	if k := h.Received.GoAway; k > 0 {
		parts = append(parts, n(k)+" GOAWAY received")
	}
	if h.Stalls > 0 && r.ElapsedS > 0 && r.Load.Connections > 0 {
		share := float64(h.StalledNs) / 1e9 / r.ElapsedS / float64(r.Load.Connections)
		parts = append(parts, fmt.Sprintf("uploads held back by the server's window for %.0f%% of the time, %s", 100*share,
			unit.Plural(int(h.Stalls), "stall", "stalls")))
	}
	return strings.Join(parts, " · ")
}

// handshakeLine describes the window's handshakes: their rate, and their share of the generator's
// CPU time, apart from the requests'.
func handshakeLine(r *record.Run) string {
	t := r.Load.TLS
	n := t.Count()
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%s handshakes/s", unit.FormatSI(t.PerS))
	if t.Resumptions != nil {
		text += fmt.Sprintf(", %s resumed", unit.Percent(float64(t.Resumptions.Count)/float64(n)))
	}
	if full := t.Handshakes.Count; full > 0 {
		text += fmt.Sprintf(" · generator CPU %s for each", unit.FormatNs((t.CPUNs-t.ResumedCPUNs)/int64(full)))
	}
	if t.Resumptions != nil && t.Resumptions.Count > 0 {
		text += fmt.Sprintf(" · %s for each resumed one", unit.FormatNs(t.ResumedCPUNs/int64(t.Resumptions.Count)))
	}
	if all := r.Generator.UserNs + r.Generator.SystemNs; all > 0 && t.CPUNs <= all {
		text += fmt.Sprintf(" · %s of its CPU time, the requests have the rest", unit.Percent(float64(t.CPUNs)/float64(all)))
	}
	return text
}

// maxErrors limits the lines of errors; the record has them all.
const maxErrors = 8

func errorLines(r *record.Run) []string {
	var lines []string
	for _, e := range r.Errors {
		if len(lines) == maxErrors {
			return append(lines, fmt.Sprintf("%d more with --json", len(r.Errors)-maxErrors))
		}
		text := fmt.Sprintf("%s: %s × %s", e.Phase, e.Cause, unit.FormatCount(int64(e.Count)))
		if e.Origin == record.OfLocal {
			text += " on the generator's host"
		}
		if e.BeforeWindow {
			text += " before the window"
		}
		lines = append(lines, text)
	}
	return lines
}

func generatorLine(r *record.Run, verbose bool) string {
	g := &r.Generator
	if len(g.Workers) == 0 {
		return "not measured"
	}
	parts := []string{
		unit.FormatNs(int64(g.CPUNsPerRequest)) + " CPU/" + r.Spec.Kind.One(),
		fmt.Sprintf("busiest thread %.0f%% running", 100*g.BusiestWorker),
	}
	switch {
	case g.RunDelay >= 0 && verbose:
		parts[1] += fmt.Sprintf(", %.0f%% runnable (waiting for CPU)", 100*g.RunDelay)
	case g.RunDelay >= 0:
		parts[1] += fmt.Sprintf(", %.0f%% runnable", 100*g.RunDelay)
	case verbose:
		parts[1] += ", run-queue delay not measured"
	}
	switch {
	case !verbose && r.Headroom() > 0:
		parts = append(parts, fmt.Sprintf("headroom %.1f×", r.Headroom()))
	case !verbose && Headroom(r) != "":
		parts = append(parts, "headroom unknown")
	}
	if g.CoalesceNs > 0 && verbose {
		parts = append(parts, "batches completions for up to "+unit.FormatNs(g.CoalesceNs))
	}
	return strings.Join(parts, " · ")
}

// Headroom states how many times its rate the generator could have reached and how that is known,
// or why it is unknown. "" if the record has neither.
func Headroom(r *record.Run) string {
	g := &r.Generator
	if times := r.Headroom(); times > 0 {
		text := fmt.Sprintf("the generator can reach %.1f× this rate", times)
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

// unloadedLine describes the latency of requests sent one at a time; "" if there were none.
func unloadedLine(r *record.Run) string {
	l := r.Unloaded
	if l == nil {
		return ""
	}
	text := fmt.Sprintf("%s one at a time before the load, over %s", unit.Plural(l.Sent, r.Spec.Kind.One(), r.Spec.Kind.Many()),
		unit.Plural(l.Connections, "connection", "connections"))
	if n := len(l.ServiceNs) - l.Cold; n > 0 {
		q := &l.Service
		text += fmt.Sprintf(": p50 %s, %s without the first %d", unit.FormatNs(q.P50Ns),
			unit.Range(unit.FormatNs(q.MinNs), "–", unit.FormatNs(q.MaxNs)), l.Cold)
	}
	if l.Failed > 0 {
		text += fmt.Sprintf(" · %d failed", l.Failed)
	}
	if a := AtOnce(r); a != "" {
		text += " · " + a
	}
	return text
}

// AtOnce returns the effective concurrency: how many requests the server processed at once; "" if unloaded requests do not
// show it.
func AtOnce(r *record.Run) string {
	a := r.Verdict.Concurrency
	if a == nil {
		return ""
	}
	return fmt.Sprintf("effective concurrency %s of %.0f (95%% CI %s)", unit.Digits(a.Requests, 3), a.Of,
		unit.Range(unit.Digits(a.Low, 3), "–", unit.Digits(a.High, 3)))
}

// Placement names the CPUs of generator and server, if a local run pinned either: "generator on
// CPU 0, server on CPU 1". "" if the scheduler was free, or the sides are not known to be
// separate.
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
		// A process is read when it is found, after pinning.
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

// verdict writes the verdict: the bottleneck with its reason, the caveats, the evidence for and
// against it.
func (l Layout) verdict(v *record.Verdict) []block {
	var blocks []block
	add := func(rank int, name, text string) {
		blocks = append(blocks, l.fact(rank, name, text))
	}
	list := func(rank int, name string, texts []string) {
		for i, text := range texts {
			add(rank, []string{name, ""}[min(i, 1)], text)
		}
	}
	var voids, caveats []string
	for i := range v.Caveats {
		if text := prose.Text(v.Caveats[i]); voiding(&v.Caveats[i]) {
			voids = append(voids, text)
		} else {
			caveats = append(caveats, text)
		}
	}
	list(0, "caution", voids)
	add(0, "bottleneck", string(v.Bottleneck)+": "+prose.Reason(v))
	rank := 6
	if v.Bottleneck == record.Failures {
		rank = 1 // contains the server's own words
	}
	list(rank, "evidence", evidence(v.Evidence))
	list(3, "against", evidence(v.Against))
	if v.NextBottleneck != nil {
		add(5, "next bottleneck", prose.Text(v.NextBottleneck.Says))
	}
	list(1, "caveats", caveats[:min(1, len(caveats))]) // the weightiest, whatever else is dropped
	for _, text := range caveats[min(1, len(caveats)):] {
		add(2, "", text)
	}
	if v.Next != nil {
		add(0, "next", prose.Sentence(v.Next))
	}
	add(7, "manual", ManualOf(v.Bottleneck))
	return blocks
}

// voiding reports whether a caveat says that something else than what was asked for was measured: then
// a bottleneck is not that of the service.
func voiding(s *record.Statement) bool {
	switch s.Code {
	case "caveat.redirects", "caveat.no-content", "caveat.responses-changed", "caveat.connections", "caveat.frozen":
		return true
	}
	return false
}

// ManualOf is where the manual describes a bottleneck: its evidence, what to do, an example.
func ManualOf(b record.Bottleneck) string {
	name := strings.NewReplacer(" ", "-", "/", "").Replace(strings.ToLower(string(b)))
	return "docs/bottlenecks/" + name + ".md"
}

func evidence(list []record.Evidence) []string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = prose.Text(list[i].Says)
	}
	return texts
}

// pathOf returns the path of a request as boxes; their utilisation may be omitted.
func (l Layout) pathOf(r *record.Run) []block {
	var blocks []block
	for i, line := range path.Lines(r.Path(), min(l.Width(), layout.WidthMost)-column, path.Style{Strong: l.Bold, Intervals: l.Verbose}) {
		if i == 0 {
			line.Name = "where time goes"
		}
		text := strings.TrimRight(fmt.Sprintf("%-*s%s", column, line.Name, line.Text), " ") + "\n"
		if n := len(blocks); n > 0 && line.Name != "busy" {
			blocks[0].lines = append(blocks[0].lines, text)
			continue
		}
		blocks = append(blocks, block{rank: 2 * min(i, 1), lines: []string{text}, whole: true})
	}
	return blocks
}
