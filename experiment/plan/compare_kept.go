package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ceiling/internal/stat"
	"ceiling/record"
)

// FinishedRuns returns one side made of saved runs.
func FinishedRuns(runs []Kept) Finished {
	var f Finished
	var names []string
	for i := range runs {
		r := runs[i].Run
		names = append(names, r.ID)
		f.Figures = append(f.Figures, figuresOf(&runs[i]))
		f.Facts = append(f.Facts, factsOf(r))
		if r.Profiling != nil {
			f.Profiles = append(f.Profiles, r.Profiling)
		}
		if f.Decide == "" {
			f.Decide = r.Target
		}
		if r.Interrupted || r.Unfinished {
			f.Caveats = append(f.Caveats, say("comparison.cut-short", with{"run": r.ID}))
		}
	}
	f.Label = strings.Join(names[:min(len(names), 1)], "")
	if len(names) > 1 {
		f.Label = fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return f
}

// figuresOf returns the figures in which a run is compared.
func figuresOf(k *Kept) Figures {
	r := k.Run
	f := Figures{
		Name: r.ID, PerS: r.Rate.CompletedPerS, P50Ns: float64(r.Latency.Response.P50Ns), P99Ns: float64(r.Latency.Response.P99Ns),
		Response: k.Response, Waiting: r.Latency.Waiting, Open: r.Load.Mode == "open", Bottleneck: r.Verdict.Bottleneck,
		Started: r.Started, ElapsedS: r.ElapsedS, BadShare: r.BadShare(), Spread: map[string]float64{},
	}
	if r.Subject != nil {
		f.ServerCPUNs = r.Subject.CPUNsPerRequest
	}
	switch {
	case r.Unfinished:
		f.Invalid = r.Verdict.Because
	case r.Verdict.Outcome == record.Invalid && r.Verdict.Bottleneck == record.LoadGenerator && !f.Open:
		// A run limited by the generator still has a valid server CPU per request.
		f.PerS, f.P50Ns, f.P99Ns, f.Response = 0, 0, 0, nil
		f.Missing = say("measured.generator", with{"run": r.ID})
	case r.Verdict.Outcome == record.Invalid:
		f.Invalid = r.Verdict.Because
	}
	if s := r.Rate.Spread; s.Samples > 1 && r.Rate.CompletedPerS > 0 {
		f.Spread[metricRPS] = s.StdevPerS / r.Rate.CompletedPerS
	}
	if k.Series != nil {
		addSpreads(f.Spread, k.Series)
	}
	return f
}

// second is one second of a run.
type second struct {
	p50, p99         []float64
	completed, cpuNs float64
}

// addSpreads computes how quantiles and CPU varied over the run's seconds. A second's quantile is
// the median of its intervals' quantiles: not the exact quantile of the second, but with the same
// variation.
func addSpreads(spread map[string]float64, series *record.Series) {
	seconds := map[int64]*second{}
	at := func(tNs, widthNs int64) *second {
		n := (tNs - widthNs/2) / 1e9
		if seconds[n] == nil {
			seconds[n] = &second{}
		}
		return seconds[n]
	}
	for i := range series.Load {
		row := &series.Load[i]
		if row.Warmup || row.TNs <= 0 || row.Completed == 0 {
			continue
		}
		s := at(row.TNs, row.WidthNs)
		s.p50, s.p99 = append(s.p50, float64(row.P50Ns)), append(s.p99, float64(row.P99Ns))
		s.completed += float64(row.Completed)
	}
	for _, row := range series.Observed.Processes {
		if row.Role == record.RoleSubject && row.TNs >= row.WidthNs {
			at(row.TNs, row.WidthNs).cpuNs += float64(row.CPUNs)
		}
	}
	var p50, p99, cpu []float64
	for _, s := range seconds {
		if len(s.p50) > 0 {
			p50, p99 = appendLog(p50, middle(s.p50)), appendLog(p99, middle(s.p99))
			cpu = appendLog(cpu, s.cpuNs/s.completed)
		}
	}
	for name, logs := range map[string][]float64{metricP50: p50, metricP99: p99, metricCPU: cpu} {
		if len(logs) > 1 {
			slices.Sort(logs) // map order must not affect the last digit
			spread[name] = deviation(logs)
		}
	}
}

func appendLog(logs []float64, v float64) []float64 {
	if v > 0 {
		logs = append(logs, math.Log(v))
	}
	return logs
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// shiftMost limits the runs per side in the exact test: 100 and 100 are 10,000 pairs.
const shiftMost = 100

// shiftOf estimates the shift from a to b, two independent samples: the Hodges-Lehmann estimate,
// the median of all differences, with the interval of every shift that the rank-sum test does not
// reject (Mann and Whitney 1947; Hollander, Wolfe, Chicken 2014, ch. 4). false: too few values to
// reject any shift at that level, or too many.
func shiftOf(a, b []float64, alpha float64) (stat.Difference, bool) {
	n, m := len(a), len(b)
	if n == 0 || m == 0 || n > shiftMost || m > shiftMost {
		return stat.Difference{}, false
	}
	differences := make([]float64, 0, n*m)
	for _, x := range a {
		for _, y := range b {
			differences = append(differences, y-x)
		}
	}
	slices.Sort(differences)
	atMost := rankSum(n, m)
	k := 0 // differences outside the interval, on each side
	for k < (n*m)/2 && 2*atMost[k] <= alpha {
		k++
	}
	if k == 0 {
		return stat.Difference{}, false
	}
	var d stat.Difference
	d.Value = (differences[(n*m-1)/2] + differences[n*m/2]) / 2
	d.Low, d.High, d.Confidence, d.N = differences[k-1], differences[n*m-k], 1-2*atMost[k-1], min(n, m)
	return d, true
}

// rankSum returns the probability that at most u of the n·m pairs have b below a if there is no
// shift, for u from 0: Mann and Whitney's recursion on the side of the largest value.
func rankSum(n, m int) []float64 {
	// ways[j][u] of i values of a and j of b, as probabilities.
	ways := make([][]float64, m+1)
	for j := range ways {
		ways[j] = []float64{1}
	}
	for i := 1; i <= n; i++ {
		next := make([][]float64, m+1)
		next[0] = []float64{1}
		for j := 1; j <= m; j++ {
			p := make([]float64, i*j+1)
			largestA, largestB := float64(i)/float64(i+j), float64(j)/float64(i+j)
			for u, w := range ways[j] { // if the largest is of a, all j of b lie below it
				p[u+j] += largestA * w
			}
			for u, w := range next[j-1] {
				p[u] += largestB * w
			}
			next[j] = p
		}
		ways = next
	}
	p := ways[m]
	for u := 1; u < len(p); u++ {
		p[u] = min(p[u]+p[u-1], 1)
	}
	return p
}
