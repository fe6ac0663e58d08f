package page

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/live"
	"ceiling/show/path"
	"ceiling/verdict/prose"
)

// state is everything that changes, except points: texts, and the shares drawn. The page inserts
// texts as text, never as HTML.
type state struct {
	planState
	Title   string    `json:"title"`
	ID      string    `json:"id"`
	Load    string    `json:"load"`
	Phase   string    `json:"phase"`
	Killed  bool      `json:"killed"`
	Doing   string    `json:"doing"`
	Time    string    `json:"time"`
	Share   float64   `json:"share"` // 0 to 1, -1 unknown
	EndS    float64   `json:"end_s"` // of the time axis, 0 unknown
	BeginS  float64   `json:"begin_s"`
	Tiles   []tile    `json:"tiles"`
	Verdict verdict   `json:"verdict"`
	Path    pathState `json:"path"`
	Stalls  []stall   `json:"stalls"`
	Ends    []end     `json:"ends"`
	Agents  []end     `json:"agents"` // if there are several
	Hosts   []host    `json:"hosts"`
	Parts   []string  `json:"parts"` // of a core's time
	Links   []link    `json:"links"`
	Lost    []string  `json:"lost"`
	Cost    string    `json:"cost"`
	Report  bool      `json:"report"` // a report exists
}

// planState is the progress of a plan.
type planState struct {
	Plan     string  `json:"plan"`
	PlanPart float64 `json:"plan_share"`
	Answer   string  `json:"answer"`     // once it has ended
	SLOP99   float64 `json:"slo_p99_ms"` // limit of p99, 0 none
}

// tile is one figure.
type tile struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note"`
}

type verdict struct {
	Name       string            `json:"name"`
	Basis      string            `json:"basis"`
	Outcome    record.Outcome    `json:"outcome"`
	Bottleneck record.Bottleneck `json:"bottleneck"`
	Because    string            `json:"because"`
	Evidence   []string          `json:"evidence"`
	Caveats    []string          `json:"caveats"`
	Next       string            `json:"next"`
	Final      bool              `json:"final"`
}

// pathState is the path of a request, in the terms of package path.
type pathState struct {
	Mean    string `json:"mean"`
	Boxes   []box  `json:"boxes"`
	Unknown string `json:"unknown"` // why there are no places
}

type box struct {
	Name   string  `json:"name"`
	Tone   int     `json:"tone"` // position in a request's order, which sets the colour
	Part   float64 `json:"part"`
	Time   string  `json:"time"`
	Times  string  `json:"times"` // its interval
	Share  string  `json:"share"`
	Shares string  `json:"shares"`
	Use    string  `json:"use"`
	Limits bool    `json:"limits"`
}

// stall is an interval without responses, in seconds of the run.
type stall struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Name string  `json:"name"`
}

type end struct {
	Name string `json:"name"`
	Of   string `json:"of"`
	Says string `json:"says"`
}

type host struct {
	Name  string `json:"name"`
	Cores []core `json:"cores"`
}

type core struct {
	Name   string    `json:"name"`
	Shares []float64 `json:"shares"` // by part; null if unknown
	Says   string    `json:"says"`
}

type link struct {
	Name  string `json:"name"`
	Ways  []way  `json:"ways"`
	Limit string `json:"limit"`
}

type way struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // of the limit, -1 if unknown
	Says  string  `json:"says"`
}

// evidenceMost limits the facts shown with a verdict; the record has them all.
const evidenceMost = 5

// encodeState encodes a snapshot's state as JSON.
func encodeState(s *live.Snapshot, cost string, report bool) []byte {
	parts := live.CorePartNames()
	out := state{
		Title: s.Title(), ID: s.ID, Load: s.Load(), Phase: phaseName(s.Phase), Killed: s.Killed, Doing: s.Doing(), Time: s.Time(),
		Share:     rounded(s.Progress.Share),
		planState: planState{Plan: s.PlanSays(), Answer: answerOf(s), SLOP99: p99Limit(s), PlanPart: rounded(s.Progress.PlanShare)},

		BeginS: -s.Spec.Warmup.Seconds(), EndS: endOf(s),
		Tiles: tilesOf(s), Verdict: verdictOf(s), Path: pathOf(s),
		Stalls: stallsOf(s), Hosts: hostsOf(s), Parts: parts[:],
		Links: linksOf(s), Cost: cost, Report: report,
	}
	for _, e := range []struct {
		name string
		of   *live.End
	}{{"generator", &s.Ends.Generator}, {"server", &s.Ends.Server}} {
		out.Ends = append(out.Ends, end{e.name, e.of.Name, e.of.CoresSay()})
	}
	out.Agents = []end{}
	for i := range s.Agents {
		out.Agents = append(out.Agents, end{Name: s.Agents[i].Name, Says: s.Agents[i].Says()})
	}
	for _, n := range s.Lost {
		out.Lost = append(out.Lost, n.What+": "+n.Why)
	}
	text, err := json.Marshal(&out)
	if err != nil {
		panic("live page: " + err.Error()) // plain structs and finite numbers: a bug in this file
	}
	return text
}

// endOf returns the end of the time axis; 0 for a run that ended early.
func endOf(s *live.Snapshot) float64 {
	if s.Phase == live.Ended {
		return 0
	}
	return s.Spec.Duration.Seconds()
}

// answerOf returns a plan's result.
func answerOf(s *live.Snapshot) string {
	if s.Plan == nil {
		return ""
	}
	return s.Plan.Answer
}

// p99Limit returns the SLO's limit of the 99th percentile in milliseconds, 0 if it has none.
func p99Limit(s *live.Snapshot) float64 {
	for _, t := range s.Spec.SLO {
		if t.Metric == spec.MetricResponse && t.Quantile == .99 {
			return t.Limit / 1e6
		}
	}
	return 0
}

func phaseName(p live.Phase) string {
	return map[live.Phase]string{
		live.Waiting: "waiting", live.Connecting: "connecting", live.WarmingUp: "warm-up", live.Running: "running", live.Between: "between",
		live.Ended: "ended",
	}[p]
}

// rounded rounds a share to a thousandth: finer is invisible, and unchanged values are not sent.
// NaN and infinities become unknown.
func rounded(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return -1
	}
	return math.Round(v*1000) / 1000
}

func tilesOf(s *live.Snapshot) []tile {
	soFar := &s.SoFar
	q := &soFar.Response
	exact := q.Count > 0
	rate := tile{Name: s.Spec.Kind.Many() + " per second", Value: "–", Note: "no data yet"}
	last := [4]string{"–", "–", "–", "–"}
	if p := s.Last; p != nil {
		rate.Value = unit.FormatCount(int64(s.LastPerS + 0.5))
		rate.Note = "in the last second"
		if soFar.Intervals > 0 {
			rate.Note += "; " + unit.FormatRate(soFar.PerS) + " in the window"
		}
		for i, ns := range []int64{p.P50Ns, p.P90Ns, p.P99Ns, p.MaxNs} {
			last[i] = live.Quantile(p.Answered, ns)
		}
	}
	whole := "of the whole window"
	if s.Killed {
		whole = "until it was killed"
	}
	if s.Phase == live.Ended && soFar.PerS > 0 {
		rate.Value, rate.Note = unit.FormatCount(int64(soFar.PerS+0.5)), whole
	}
	tiles := []tile{rate}
	for i, share := range []float64{.5, .9, .99, 1} {
		t := tile{Name: "response " + [...]string{"p50", "p90", "p99", "max"}[i], Value: last[i], Note: "of the last interval"}
		if exact {
			t = tile{Name: t.Name, Value: q.Text(share), Note: "of the window; " + last[i] + " in the last interval"}
			if s.Phase == live.Ended {
				t.Note = whole
			}
		}
		tiles = append(tiles, t)
	}
	if text := s.HandshakesSay(); text != "" {
		value, note, _ := strings.Cut(text, ", ")
		tiles = append(tiles, tile{Name: "TLS handshakes", Value: value, Note: note})
	}
	failed := tile{Name: "errors", Value: unit.FormatCount(int64(soFar.Failed)), Note: "no response, or an unexpected HTTP status"}
	return append(tiles, failed)
}

func verdictOf(s *live.Snapshot) verdict {
	v := verdict{Name: s.VerdictName(), Basis: s.VerdictBasis(), Evidence: []string{}, Caveats: []string{}}
	f := s.Formed
	if f == nil {
		return v
	}
	v.Outcome, v.Bottleneck, v.Final = f.Verdict.Outcome, f.Verdict.Bottleneck, f.Final
	v.Because, v.Next = f.Because(), prose.Sentence(f.Verdict.Next)
	for i, e := range f.Verdict.Evidence {
		if i == evidenceMost {
			break
		}
		v.Evidence = append(v.Evidence, prose.Text(e.Says))
	}
	for i, d := range f.Verdict.Caveats {
		if i == evidenceMost {
			break
		}
		v.Caveats = append(v.Caveats, prose.Text(d))
	}
	return v
}

func pathOf(s *live.Snapshot) pathState {
	p := s.Path()
	out := pathState{Boxes: []box{}}
	boxes := path.Boxes(p)
	if len(boxes) == 0 {
		out.Unknown = s.PathUnknown()
		return out
	}
	if p.MeanNs > 0 {
		out.Mean = unit.FormatNsFloat(p.MeanNs)
	}
	for i := range boxes {
		b := &boxes[i]
		one := box{b.Name, toneOf(b.Station), rounded(b.Part), b.Time, b.TimeRange, b.Share, b.ShareRange, b.Use, b.Limits}
		switch {
		case b.Known:
		case s.Phase == live.Ended:
			one.Time = "not known"
		default:
			one.Time = path.Unknown
		}
		out.Boxes = append(out.Boxes, one)
	}
	return out
}

// toneOf returns a place's colour; the network's also stands for a server that is beyond it.
func toneOf(station string) int {
	if station == record.PlaceBeyond {
		station = record.PlaceToServer
	}
	names := record.PlaceNames()
	return max(slices.Index(names[:], station), 0)
}

func stallsOf(s *live.Snapshot) []stall {
	list := []stall{}
	if s.Formed == nil {
		return list
	}
	for _, one := range s.Formed.Verdict.Stalls {
		list = append(list, stall{rounded(float64(one.FromNs) / 1e9), rounded(float64(one.ToNs) / 1e9), one.String()})
	}
	return list
}

func hostsOf(s *live.Snapshot) []host {
	list := []host{}
	for _, h := range s.Ends.Hosts {
		out := host{Name: h.Name}
		for i := range h.Cores {
			c := &h.Cores[i]
			if c.Bad {
				out.Cores = append(out.Cores, core{Name: strconv.Itoa(c.CPU), Says: "inconsistent"})
				continue
			}
			shares := make([]float64, len(c.Shares))
			for p, v := range c.Shares {
				shares[p] = rounded(v)
			}
			out.Cores = append(out.Cores, core{strconv.Itoa(c.CPU), shares, unit.Percent(c.Busy()) + " busy"})
		}
		list = append(list, out)
	}
	return list
}

func linksOf(s *live.Snapshot) []link {
	list := []link{}
	for i := range s.Links {
		l := &s.Links[i]
		out := link{Name: l.Iface, Limit: l.LimitSays()}
		if l.Side != "" {
			out.Name += ", " + l.Side + " side"
		}
		for _, w := range []struct {
			name string
			of   *record.LinkWay
		}{{"received", &l.Received}, {"sent", &l.Sent}} {
			out.Ways = append(out.Ways, way{w.name, rounded(w.of.Share()), live.Carried(w.of) + " · " + unit.FormatSI(w.of.PacketsPerS) + " packets/s"})
		}
		list = append(list, out)
	}
	return list
}

// finished is one line of a plan's list.
type finished struct {
	Number       int               `json:"number"`
	Doing        string            `json:"doing"`
	Connections  int               `json:"connections"`
	TargetPerS   float64           `json:"asked_per_s"` // 0: a closed loop
	P99Ms        float64           `json:"p99_ms"`      // 0: no responses
	Warmup       bool              `json:"warmup"`
	PerS         float64           `json:"per_s"`
	Rate         string            `json:"rate"`
	P50          string            `json:"p50"`
	P99          string            `json:"p99"`
	Outcome      record.Outcome    `json:"outcome"`
	Bottleneck   record.Bottleneck `json:"bottleneck"`
	StoppedEarly string            `json:"stopped_early"`
}

func encodeRun(d *live.FinishedRun) []byte {
	p99 := 0.0
	if d.Response.Count > 0 {
		p99 = float64(d.Response.P99Ns) / 1e6
	}
	text, err := json.Marshal(&finished{
		Connections: d.Connections, TargetPerS: max(rounded(d.TargetPerS), 0), P99Ms: p99, Warmup: d.WarmupRun,
		Number: d.Number, Doing: d.Doing, PerS: max(rounded(d.CompletedPerS), 0), Rate: unit.FormatRate(d.CompletedPerS),
		P50: live.Quantile(d.Response.Count > 0, d.Response.P50Ns), P99: live.Quantile(d.Response.Count > 0, d.Response.P99Ns),
		Outcome: d.Outcome, Bottleneck: d.Bottleneck, StoppedEarly: d.StoppedEarly,
	})
	if err != nil {
		panic("live page: " + err.Error())
	}
	return text
}

// appendPoint writes a point as [end s, width s, requests/s, failed, p50, p90, p99, max ms,
// flags, intervals, first step, responses in it, in the next, …]: flags 1 late, 2 warm-up.
// Without responses the quantiles are null and there are no steps (record.Steps).
func appendPoint(out []byte, p *live.Point) []byte {
	number := func(v float64, digits int) {
		out = strconv.AppendFloat(out, v, 'f', digits, 64)
		out = append(out, ',')
	}
	out = append(out, '[')
	number(float64(p.TNs)/1e9, 3)
	number(float64(p.WidthNs)/1e9, 3)
	number(p.PerS(), 1)
	number(float64(p.Failed), 0)
	for _, ns := range []int64{p.P50Ns, p.P90Ns, p.P99Ns, p.MaxNs} {
		if !p.Answered {
			out = append(out, "null,"...)
			continue
		}
		number(float64(ns)/1e6, 4)
	}
	flags := 0
	if p.Late {
		flags |= 1
	}
	if p.Warmup {
		flags |= 2
	}
	out = strconv.AppendInt(out, int64(flags), 10)
	out = append(out, ',')
	out = strconv.AppendInt(out, int64(p.Intervals), 10)
	if p.Response != nil {
		out = strconv.AppendInt(append(out, ','), int64(p.Response.First), 10)
		for _, n := range p.Response.Counts {
			out = strconv.AppendUint(append(out, ','), n, 10)
		}
	}
	return append(out, ']')
}

// encodeStretches writes the path over time: [end s, width s, mean ms, [share, …]] of each
// segment.
func encodeStretches(list []live.Stretch) []byte {
	rows := [][4]any{}
	for i := range list {
		s := &list[i]
		shares := []float64{}
		for _, at := range s.Stations {
			shares = append(shares, rounded(at.Share))
		}
		rows = append(rows, [4]any{rounded(float64(s.TNs) / 1e9), rounded(float64(s.WidthNs) / 1e9), finite(s.MeanNs / 1e6), shares})
	}
	text, err := json.Marshal(rows)
	if err != nil {
		panic("live page: " + err.Error())
	}
	return text
}

// finite converts NaN and infinities, which JSON lacks, to 0 for unknown.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return math.Round(v*1e6) / 1e6
}

// says describes the view's cost to its process.
func (c *cost) says() string {
	if c.watched < secondsShown {
		return "measuring…"
	}
	share := float64(c.spentNs) / float64(c.watched.Nanoseconds())
	return fmt.Sprintf("≤ %.2f%% of one core", 100*share)
}

// secondsShown is how long the view must have been watched before it reports its cost.
const secondsShown = 2e9 // ns
