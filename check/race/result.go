package race

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/internal/stat"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// Schema names the version of Result.
const Schema = "ceiling.race/1"

// Result is a race. Units are in the names: _ns nanoseconds, _s seconds, _per_s
// per second, _bytes bytes.
type Result struct {
	Schema      string             `json:"schema"`
	Time        time.Time          `json:"time"`
	Environment record.Environment `json:"environment"`
	Settings    Settings           `json:"settings"`
	TookS       float64            `json:"took_s"`
	Entrants    []*Contestant      `json:"contestants"`
	Cases       []CaseResult       `json:"cases"`
	Verdicts    []Verdict          `json:"verdicts"`
	Caveats     []string           `json:"caveats,omitempty"`
}

// Settings are what was asked for.
type Settings struct {
	Rounds      int     `json:"rounds"`
	DurationS   float64 `json:"duration_s"`
	Workers     int     `json:"workers"`
	Connections int     `json:"connections"`
	PerS        int     `json:"open_per_s"`
	Seed        uint64  `json:"seed"`
}

// CaseResult is a case with a row for each contestant.
type CaseResult struct {
	Case
	Rows    []Row `json:"rows"`
	samples []Sample
}

// Row is one contestant at one case. Estimates are medians over the rounds.
type Row struct {
	Name string `json:"name"`
	// Hash of the configuration, the name and the version.
	Hash          string        `json:"hash,omitempty"`
	Configuration Configuration `json:"configuration,omitzero"`
	// Forwards is the head that the backend gets for the race's request.
	Forwards string `json:"forwards,omitempty"`
	// Cipher that it chose, where the case is over TLS.
	Cipher string `json:"cipher,omitempty"`
	// NotRaced says why there are no figures.
	NotRaced string `json:"not_raced,omitempty"`

	NsPerRequest *stat.Estimate `json:"cpu_ns_per_request,omitempty"`
	// ToNginx is the CPU per request to nginx's, by pairs of one round.
	ToNginx    *stat.Estimate `json:"cpu_to_nginx,omitempty"`
	P99ToNginx *stat.Estimate `json:"open_p99_to_nginx,omitempty"`
	PerS       *stat.Estimate `json:"completed_per_s,omitempty"`
	OpenP99Ns  *stat.Estimate `json:"open_p99_ns,omitempty"`
	Memory     *stat.Estimate `json:"memory_bytes,omitempty"`

	Errors     uint64  `json:"errors"`
	Late       uint64  `json:"late"`
	Miscounted int     `json:"miscounted"` // rounds in which the backend counted otherwise
	Idle       *Idle   `json:"idle,omitempty"`
	Outage     *Outage `json:"outage,omitempty"`
}

// Outage is what requests met that began when nothing was away any more.
type Outage struct {
	Rounds int     `json:"rounds"`
	AwayS  float64 `json:"away_s"`
	// Requests that began after it, Failed those without 200, and Wrong those answered with a former
	// release, or a mix of two.
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	Wrong    int `json:"wrong"`
	// LongestNs after the end of it in which the last such request began, the worst of the rounds.
	LongestNs int64 `json:"longest_ns"`
}

// Verdict is a figure and what is aimed at: at most Limit.
type Verdict struct {
	Case   string `json:"case"`
	Figure string `json:"figure"`
	// Estimate over the rounds; of no rounds where it is measured once.
	stat.Estimate
	Limit float64 `json:"limit"`
	Unit  string  `json:"unit"`
	Says  string  `json:"says"`
}

// pairs are the ratios of a figure, own to base, of the rounds that both have, ascending.
func pairs(own, base map[int]*Sample, f func(*Sample) float64) []float64 {
	var ratios []float64
	for round, s := range own {
		if b := base[round]; b != nil && f(s) > 0 && f(b) > 0 {
			ratios = append(ratios, f(s)/f(b))
		}
	}
	slices.Sort(ratios)
	return ratios
}

// met reports whether the estimate is within the limit.
func (v Verdict) met() bool { return v.Value <= v.Limit }

// judge says whether the limit is met. The interval decides; where it has the limit inside, the
// estimate does, and it is said.
func (v *Verdict) judge() {
	v.Says = "missed"
	if v.met() {
		v.Says = "met"
	}
	switch {
	case v.N > 0 && v.N < stat.LeastBlocks(confidence, 1):
		v.Says += " by the median; too few rounds for an interval"
	case v.Low <= v.Limit && v.High > v.Limit:
		v.Says += " by the median; the interval has the target inside"
	}
}

// confidence of the intervals, each by itself.
const confidence = 0.95

func (r *Result) note(text string) {
	if !slices.Contains(r.Caveats, text) {
		r.Caveats = append(r.Caveats, text)
	}
}

// conclude makes rows, verdicts and caveats of the samples.
func (r *Result) conclude() {
	for i := range r.Cases {
		c := &r.Cases[i]
		for k := range c.Rows {
			r.summarise(c, &c.Rows[k])
		}
		r.judgeCase(c)
		r.caveatCase(c)
	}
	for _, e := range r.Entrants {
		if e.Name == Nginx && e.Missing != "" {
			r.note("no ratio and no verdict on CPU: nginx is " + e.Missing)
		}
	}
}

func (c *CaseResult) of(name string) map[int]*Sample {
	list := map[int]*Sample{}
	for i := range c.samples {
		if s := &c.samples[i]; s.Name == name {
			list[s.Round] = s
		}
	}
	return list
}

func (r *Result) summarise(c *CaseResult, row *Row) {
	own, base := c.of(row.Name), c.of(Nginx)
	if len(own) == 0 {
		return
	}
	middle := func(f func(*Sample) float64) *stat.Estimate {
		var values []float64
		for _, s := range own {
			values = append(values, f(s))
		}
		return r.estimate(stat.Median(values, confidence))
	}
	row.NsPerRequest, row.PerS = middle((*Sample).nsPerRequest), middle((*Sample).perS)
	row.Memory = middle(func(s *Sample) float64 { return float64(s.Memory) })
	row.OpenP99Ns = middle(func(s *Sample) float64 { return float64(s.OpenP99Ns) })
	if row.Name != Nginx && len(base) > 0 {
		row.ToNginx = r.ratio(own, base, (*Sample).nsPerRequest)
		row.P99ToNginx = r.ratio(own, base, func(s *Sample) float64 { return float64(s.OpenP99Ns) })
	}
	for _, s := range own {
		row.Errors += s.Errors
		row.Late += s.Late
		if !c.Files && (s.Seen < s.Requests || s.Seen > s.Requests+uint64(r.Settings.Connections*max(1, c.Streams))) {
			row.Miscounted++
		}
	}
}

// ratio is own to base, by pairs of one round: Hodges and Lehmann's estimate over
// the logarithms, with the interval of Wilcoxon's signed-rank test.
func (r *Result) ratio(own, base map[int]*Sample, f func(*Sample) float64) *stat.Estimate {
	blocks := pairs(own, base, f)
	for i := range blocks {
		blocks[i] = math.Log(blocks[i])
	}
	if len(blocks) == 0 {
		return nil
	}
	d, err := stat.Paired(blocks, confidence, 1)
	e := r.estimate(d.Estimate, err)
	if e != nil {
		e.Value, e.Low, e.High = math.Exp(e.Value), math.Exp(e.Low), math.Exp(e.High)
	}
	return e
}

// estimate notes what an estimate warns of, once.
func (r *Result) estimate(e stat.Estimate, err error) *stat.Estimate {
	if err != nil {
		r.note(err.Error())
		return nil
	}
	for _, w := range e.Warnings {
		r.note(prose.Text(record.State(w.Code, w.With)))
	}
	return &e
}

// idleLimit is aimed at: bytes of a contestant's memory for an idle connection.
const idleLimit = 1024

// outageLimit is aimed at: how long after an outage a request may still fail, two turns of a prober.
const outageLimit = 2 * probeEvery

func (r *Result) judgeCase(c *CaseResult) {
	for i := range c.Rows {
		row := &c.Rows[i]
		if row.Name != Ours && row.Name != Prefork {
			continue
		}
		say := func(what string, e *stat.Estimate, limit float64, unit string) {
			if e != nil && limit > 0 {
				v := Verdict{Case: c.Name, Figure: c.Name + ": " + row.Name + what, Estimate: *e, Limit: limit, Unit: unit}
				v.judge()
				r.Verdicts = append(r.Verdicts, v)
			}
		}
		once := func(x float64) *stat.Estimate {
			return &stat.Estimate{Value: x, Interval: stat.Interval{Low: x, High: x}}
		}
		say(", CPU per request to nginx's", row.ToNginx, c.Limit, "ratio")
		say(", p99 at the same rate to nginx's", row.P99ToNginx, 1, "ratio")
		if d := row.Idle; d != nil && row.NotRaced == "" {
			say(", bytes for an idle connection", once(d.BytesPerConnection), idleLimit, "bytes")
		}
		if o := row.Outage; o != nil && row.NotRaced == "" {
			say(", ms in which requests failed or were answered wrongly after it", once(float64(o.LongestNs)/1e6),
				float64(outageLimit.Milliseconds()), "ms")
		}
	}
}

// othersCaveat is the share of CPU time from which a neighbour is told of.
const othersCaveat = 0.10

func (r *Result) caveatCase(c *CaseResult) {
	busy := 0
	for i := range c.samples {
		if c.samples[i].others() > othersCaveat {
			busy++
		}
	}
	if busy > 0 {
		r.note(fmt.Sprintf("%s: in %d of %d turns other processes used more than %.0f%% of the CPU time", c.Name, busy, len(c.samples),
			othersCaveat*100))
	}
	ciphers := map[string][]string{}
	for i := range c.Rows {
		if row := &c.Rows[i]; row.Cipher != "" {
			ciphers[row.Cipher] = append(ciphers[row.Cipher], row.Name)
		}
	}
	if len(ciphers) > 1 {
		r.note(fmt.Sprintf("%s: not all chose the same cipher: %v", c.Name, ciphers))
	}
	tell := func(what string, count func(*Row) uint64) {
		var list []string
		for i := range c.Rows {
			if n := count(&c.Rows[i]); n > 0 {
				list = append(list, fmt.Sprintf("%s %d", c.Rows[i].Name, n))
			}
		}
		if len(list) > 0 {
			r.note(c.Name + ": " + what + ": " + strings.Join(list, ", "))
		}
	}
	tell("errors", func(row *Row) uint64 { return row.Errors })
	tell("requests still unsent when an open loop ended: its p99 is of a load below the target rate",
		func(row *Row) uint64 { return row.Late })
	tell("rounds in which the backend's count is not the generator's", func(row *Row) uint64 { return uint64(row.Miscounted) })
}

// keep writes the result, with its configurations, and the samples into the directory that was asked
// for.
func (r *race) keep() error {
	if r.Keep == "" {
		return nil
	}
	err := os.MkdirAll(r.Keep, 0o755)
	for name, v := range map[string]any{"race.json": r.result, "samples.json": r.samples} {
		text, failed := json.MarshalIndent(v, "", "  ")
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(r.Keep, name), append(text, '\n'), 0o644))
	}
	return err
}
