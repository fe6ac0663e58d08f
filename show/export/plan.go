package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"ceiling/internal/secret"
	"ceiling/record"
)

// Tables of a plan.
const (
	TableRuns    = "runs"
	TableEffects = "effects"
)

// PlanTables returns the CSV tables of a plan.
func PlanTables() []string { return []string{TableRuns, TableEffects} }

// PlanCSV writes a table of a plan, as CSV does for a run: either its runs, one per line with a
// column per varied factor, or the effects of a factorial experiment. Values that were not
// measured are empty cells.
func PlanCSV(out io.Writer, p *record.Plan, table string) error {
	var lines [][]string
	switch table {
	case TableRuns:
		lines = planRuns(p)
	case TableEffects:
		if p.Factorial == nil {
			return fmt.Errorf("%s is a %s and has no effects; a factorial experiment does. --table %s has its runs", p.ID, p.Experiment.Kind, TableRuns)
		}
		lines = planEffects(p.Factorial)
	default:
		return fmt.Errorf("a plan has no table %q; it is one of %s. A run's tables: export %s/RUN", table, strings.Join(PlanTables(), ", "), p.ID)
	}
	w := csv.NewWriter(out)
	w.UseCRLF = true
	return w.WriteAll(lines)
}

// decimal formats a value; it is empty for 0, which means not measured.
func decimal(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func planRuns(p *record.Plan) [][]string {
	e, _ := p.Experiment.Concealed(secret.Plain())
	head := []string{"number", "run", "block", "side", "noise", "warmup_run", "repeat"}
	for i := range e.Factorial.Factors {
		head = append(head, harmless(e.Factorial.Factors[i].Name))
	}
	head = append(head, "server", "requests", "connections", "pipelining", "threads", "target_per_s", "outcome", "bottleneck", "elapsed_s", "completed",
		"failed", "bad_share", "completed_per_s", "read_bytes_per_s", "in_flight", "p50_ns", "p75_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "max_ns",
		"mean_ns", "stdev_ns", "within_stdev", "server_cpu_ns",
		"generator_cpu_ns", "other_cores")
	lines := [][]string{head}
	for i := range p.Runs {
		m := &p.Runs[i]
		line := []string{strconv.Itoa(m.Number), m.Run, decimal(float64(m.Block)), m.Side, strconv.FormatBool(m.Noise),
			strconv.FormatBool(m.WarmupRun), strconv.Itoa(m.Repeat)}
		for n := range e.Factorial.Factors {
			level := ""
			if n < len(m.Cell) && m.Cell[n] >= 0 && m.Cell[n] < len(e.Factorial.Factors[n].Levels) {
				level = e.Factorial.Factors[n].Label(m.Cell[n])
			}
			line = append(line, harmless(level))
		}
		server, requests := strconv.Itoa(m.Server), strconv.Itoa(m.Mix)
		if m.Server >= 0 && m.Server < len(e.Servers) && m.Mix >= 0 && m.Mix < len(e.Requests) {
			server, requests = e.Servers[m.Server].Label(), e.Requests[m.Mix].Label()
		}
		line = append(line, harmless(server), harmless(requests), strconv.Itoa(m.Connections), strconv.Itoa(m.Pipelining),
			decimal(float64(m.Threads)), decimal(m.TargetPerS), string(m.Outcome), string(m.Bottleneck), decimal(m.ElapsedS),
			strconv.FormatUint(m.Completed, 10), strconv.FormatUint(m.Failed, 10), strconv.FormatFloat(m.BadShare, 'f', -1, 64),
			decimal(m.CompletedPerS), decimal(m.ReadBytesPerS), decimal(record.MeanInFlight(m)))
		lines = append(lines, append(append(line, quantileCells(&m.Response)...), decimal(m.ServerCPUNs), decimal(m.GeneratorCPUNs),
			strconv.FormatFloat(m.OtherCores, 'f', -1, 64)))
	}
	return lines
}

func quantileCells(q *record.Quantiles) []string {
	if q.Count == 0 {
		return make([]string, 10)
	}
	var cells []string
	for _, share := range []float64{.5, .75, .9, .95, .99, .999, 1} {
		cell := ""
		if ns, ok := q.Quantile(share); ok {
			cell = strconv.FormatInt(ns, 10)
		}
		cells = append(cells, cell)
	}
	return append(cells, decimal(q.MeanNs), decimal(q.StdevNs), decimal(q.WithinStdev))
}

func planEffects(f *record.Factorial) [][]string {
	level := func(factor string, at int) string {
		for i := range f.Factors {
			if f.Factors[i].Name == factor && at >= 0 && at < len(f.Factors[i].Levels) {
				return harmless(f.Factors[i].Levels[at])
			}
		}
		return ""
	}
	lines := [][]string{{"metric", "factor", "level", "against", "with", "with_level", "with_against", "pairs", "blocks", "ratio", "low", "high",
		"confidence", "decision", "within", "more_blocks"}}
	for i := range f.Effects {
		x := &f.Effects[i]
		line := []string{x.Metric, harmless(x.Factor), level(x.Factor, x.Level), level(x.Factor, 0), harmless(x.With), "", "", strconv.Itoa(x.Pairs),
			strconv.Itoa(x.Blocks), "", "", "", "", x.Decision, decimal(x.Within), ""}
		if x.With != "" {
			line[5], line[6] = level(x.With, x.WithLevel), level(x.With, 0)
		}
		if x.Blocks > 0 {
			line[9], line[10], line[11] = decimal(1+x.Relative.Mid), decimal(1+x.Relative.Low), decimal(1+x.Relative.High)
			line[12] = decimal(x.Relative.Confidence)
		}
		if x.MoreBlocks > 0 {
			line[15] = strconv.Itoa(x.MoreBlocks)
		}
		lines = append(lines, line)
	}
	return lines
}
