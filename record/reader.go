package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ceiling/internal/hist"
)

// Contents is everything that a record has about one run.
type Contents struct {
	Run    *Run
	Series Series
	// Histograms of the whole run by name, "response", "service" and "lag":
	// HdrHistogram V2, compressed, in base64.
	Histograms  map[string]string
	Attachments []Attachment
	// LeftOut is what a copy lacks.
	LeftOut []Omission
}

// Open reads a run: the result of a finished one, or what the lines show of one that was killed
// (Run.Unfinished). It writes nothing.
//
// It reads a damaged record as far as possible (see Series). The error is one line: the file is
// not the record of a run, or comes from a newer version.
func Open(f File) (*Run, Series, error) {
	c, err := Read(f)
	if err != nil {
		return nil, Series{}, err
	}
	return c.Run, c.Series, nil
}

// Read is Open with everything else stored with the run.
func Read(f File) (*Contents, error) {
	r, err := openRun(f)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	c, err := r.contents()
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	return c, nil
}

// contents reads all lines of a run.
func (r *runReader) contents() (*Contents, error) {
	c := &Contents{Histograms: map[string]string{}}
	rowBytes := 0
	for {
		l, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := c.take(&r.head, &l, &rowBytes); err != nil {
			r.lines.Reject(err)
		}
	}
	s := &c.Series
	s.Observed.sort()
	s.Damage = r.lines.Damage
	if rowBytes > seriesMax && len(s.Problems) < problemsMax {
		s.Problems = append(s.Problems, fmt.Sprintf("only the first %d bytes of its rows were read", seriesMax))
	}
	if c.Run == nil {
		c.Run = unfinished(&r.head, s)
	}
	return c, nil
}

// take handles one line of a run. Of several that should occur once, the last counts.
func (c *Contents) take(head *Start, l *line, rowBytes *int) error {
	switch l.kind {
	case kindResult:
		run, err := finished(head, l.text)
		if err == nil {
			c.Run = run
		}
		return err
	case kindHistogram:
		var h histogramLine
		if err := json.Unmarshal(l.text, &h); err != nil {
			return err
		}
		if err := histogramName(h.Of); err != nil {
			return err
		}
		c.Histograms[h.Of] = h.HDR
	case kindAttachment:
		var a Attachment
		if err := json.Unmarshal(l.text, &a); err != nil {
			return err
		}
		c.Attachments = append(c.Attachments, a)
	case kindLeftOut:
		var left leftOutLine
		if err := json.Unmarshal(l.text, &left); err != nil {
			return err
		}
		c.LeftOut = left.LeftOut
	default:
		if *rowBytes += len(l.text); *rowBytes <= seriesMax {
			return c.Series.take(l.kind, l.text)
		}
	}
	return nil
}

// Histogram returns one latency of the whole run, nil if the record has none.
func (c *Contents) Histogram(name string) (*hist.Hist, error) {
	if err := histogramName(name); err != nil {
		return nil, err
	}
	text := c.Histograms[name]
	if text == "" {
		return nil, nil
	}
	h, err := hist.DecodeV2(text)
	if err != nil {
		return nil, fmt.Errorf("read histogram of the %s time: %w", name, err)
	}
	return hist.FromHDR(h), nil
}

// unfinished assembles a Run from what a killed one left.
func unfinished(start *Start, series *Series) *Run {
	run := &Run{
		Schema:     Schema,
		ID:         start.ID,
		Started:    start.Created,
		Command:    start.Command,
		Spec:       start.Spec,
		Unfinished: true,
		Statuses:   map[string]uint64{},
		Errors:     []Error{},
		Exit:       4,
	}
	if targets := start.Spec.Targets; len(targets) > 0 {
		run.Target = targets[0].URL
	}
	run.Generator = Generator{RunDelay: -1, Workers: []Worker{}}
	run.fromRows(series.Load)
	run.Verdict = Verdict{
		Outcome: Invalid, Bottleneck: Inconclusive, Because: run.Killed(), Next: KilledNext(),
		Evidence: []Evidence{}, Caveats: []Statement{},
	}
	run.agentsFromRows(start.Agents, series.Agents)
	missing := func(what, why string) {
		run.NotMeasured = append(run.NotMeasured, NotMeasured{What: what, Why: why})
	}
	const killed = "no result was written"
	missing("latency", killed+"; quantiles of intervals cannot be merged into the run's")
	missing("statuses", killed+"; the series counts statuses of 400 and more only, as status errors")
	missing("errors by cause", killed+"; the series counts failures without their causes")
	missing("generator", killed)
	missing("engine and threads", killed+"; what is given is what was asked")
	if len(series.Load) == 0 {
		missing("load", "the series has no row of the generator")
	}
	if start.Environment != nil {
		run.Environment = *start.Environment
	} else {
		missing("environment", "the head of the record lacks it")
	}
	if len(series.Problems) > 0 {
		run.NotMeasured = append(run.NotMeasured, NotMeasured{What: "series", Why: strings.Join(series.Problems, "; "), Part: true})
	}
	run.NotMeasured = append(run.NotMeasured, series.NotMeasured...)
	return run
}

// KilledNext says what to do about a run that was killed.
func KilledNext() []Statement { return []Statement{State("killed.next", nil)} }

// Killed says what the figures of an unfinished run cover.
func (r *Run) Killed() []Statement {
	return []Statement{State("killed", Values{"covered_s": r.ElapsedS, "asked_s": r.Spec.Duration.Seconds()})}
}

// agentsFromRows sums each agent's own rows. It identifies agents that no document names by their
// rows.
func (r *Run) agentsFromRows(known []Agent, rows []LoadRow) {
	by := map[string][]LoadRow{}
	for _, row := range rows {
		by[row.Host] = append(by[row.Host], row)
	}
	r.Agents = slices.Clone(known)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if r.Agent(name) == nil {
			r.Agents = append(r.Agents, Agent{Name: name, Loads: true})
		}
	}
	for i := range r.Agents {
		a := &r.Agents[i]
		a.Generator = Generator{RunDelay: -1}
		if !a.Loads {
			continue
		}
		own := Run{Spec: r.Spec}
		own.fromRows(by[a.Name])
		a.Load.Established, a.Load.Mode, a.Load.Pipelining = own.Load.Established, own.Load.Mode, own.Load.Pipelining
		a.ElapsedS, a.Requests, a.Rate, a.Bytes, a.Errors = own.ElapsedS, own.Requests, own.Rate, own.Bytes, own.Errors
	}
}

// fromRows fills in the sums of the generator's intervals.
func (r *Run) fromRows(rows []LoadRow) {
	r.Load = Load{
		Connections: r.Spec.Connections,
		Threads:     r.Spec.Threads,
		Pipelining:  r.Spec.Pipelining,
		Mode:        "closed",
		Engine:      r.Spec.Engine,
		Arrivals:    r.Spec.Arrivals,
	}
	if r.Spec.Open() {
		r.Load.Mode, r.Load.TargetPerS = "open", r.Spec.Rate.PerSecond()
	}
	var bad, sent uint64
	var warmupNs, elapsedNs, serviceNs float64
	first := true
	for i := range rows {
		row := &rows[i]
		if row.Warmup {
			warmupNs += float64(row.WidthNs)
			// What is in flight when the window opens carries over into it.
			r.Requests.InFlightAtStart, r.Load.Established = row.InFlight, row.Connected
			first = false
			continue
		}
		if first {
			r.Load.Established, first = row.Connected, false
		}
		elapsedNs += float64(row.WidthNs)
		sent += row.Sent
		bad += row.Bad
		serviceNs += float64(row.Completed) * row.ServiceMeanNs
		r.Requests.Completed += row.Completed
		r.Requests.Failed += row.Failed
		r.Requests.InFlight = row.InFlight
		r.Requests.Unsent = row.Backlog
		r.Bytes.Read += row.Read
		r.Bytes.Written += row.Written
	}
	if elapsedNs == 0 { // killed in the warm-up: no window, nothing carries over
		r.Requests.InFlightAtStart = 0
	}
	r.Requests.Sent = r.Requests.InFlightAtStart + sent
	r.Latency.Service.MeanNs = serviceNs / max(float64(r.Requests.Completed), 1)
	if bad > 0 {
		r.Errors = append(r.Errors, Error{Phase: PhaseStatus, Cause: "400 or more", Count: bad})
	}
	r.WarmupS, r.ElapsedS = warmupNs/float64(time.Second), elapsedNs/float64(time.Second)
	if elapsedNs > 0 {
		r.Rate.CompletedPerS = float64(r.Requests.Completed) / r.ElapsedS
		r.Rate.SentPerS = float64(sent) / r.ElapsedS
	}
	r.Rate.Spread = SpreadOf(rows)
}
