package forecast

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"ceiling/internal/golden"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/audit"
	"ceiling/verdict/prose"
)

func published(t *testing.T) []record.Point {
	t.Helper()
	f, err := os.Open("../../docs/journal/0022-published/records/points.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	points, err := record.ReadPoints(f)
	if err != nil {
		t.Fatal(err)
	}
	return points.Points
}

// unexplained is the size of an error from which its reason has to be more than that a forecast is an
// upper bound.
const unexplained = .15

// TestForecastsOfPublishedPoints holds the ranges of forecasts, and docs/plan.md, to the check.
func TestForecastsOfPublishedPoints(t *testing.T) {
	points := published(t)
	list, judged := Check(points), audit.Judge(points).Points
	valid := func(c *Checked) bool { return Usable(&judged[at(points, c.Point)].Verdict) }
	_, median, n := Range(list, valid)
	if n < 20 || median > .15 {
		t.Errorf("median error %.1f%% of %d points; at most 15%% is asked", 100*median, n)
	}
	var rows strings.Builder
	refused := map[string][]string{}
	for i := range list {
		c := &list[i]
		if c.Forecast == nil {
			refused[c.Refused] = append(refused[c.Refused], c.Point.ID)
			continue
		}
		top, e := c.Forecast.Sustained(), c.Error()
		if !valid(c) {
			fmt.Fprintf(&rows, "| %s | %s | %s | %s, %s | %s | – | the measurement is invalid: %s |\n", c.Point.ID, c.Point.Route, c.From.ID,
				unit.FormatSI(top.PerS), top.Resource, unit.FormatSI(c.Point.RPS.Value), prose.Sentence(judged[i].Verdict.Because))
			continue
		}
		why := c.Why()
		if why == "" && e < -.02 {
			why = "the judge says " + cmp.Or(string(judged[i].Verdict.Bottleneck), "nothing")
		}
		if math.Abs(e) > unexplained && why == "" {
			t.Errorf("point %s: an error of %+.0f%% has no reason", c.Point.ID, 100*e)
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s, %s | %s | %+.1f%% | %s |\n", c.Point.ID, c.Point.Route, c.From.ID,
			unit.FormatSI(top.PerS), top.Resource, unit.FormatSI(c.Point.RPS.Value), 100*e, why)
	}
	cpu, cpuMedian, cpuN := Range(list, func(c *Checked) bool { return valid(c) && c.Forecast.Sustained().Resource != Link })
	link, linkMedian, linkN := Range(list, func(c *Checked) bool { return valid(c) && c.Forecast.Sustained().Resource == Link })
	for _, x := range []struct {
		name      string
		got, want Errors
	}{{"CPU", cpu, cpuErrors()}, {"link", link, linkErrors()}} {
		if math.Abs(x.got.Low-x.want.Low) > .005 || math.Abs(x.got.High-x.want.High) > .005 {
			t.Errorf("%s: four of five measured rates are %.3f to %.3f of the forecast; the code says %+v", x.name, x.got.Low, x.got.High, x.want)
		}
	}
	var why strings.Builder
	for _, text := range []string{refusedNoCosts, refusedNoWorkers} {
		fmt.Fprintf(&why, "- %s: %s\n", strings.Join(refused[text], ", "), text)
		delete(refused, text)
	}
	if len(refused) > 0 {
		t.Errorf("refused for other reasons: %v", refused)
	}
	summary := fmt.Sprintf("Of %d points, %d have a forecast and figures that do not contradict each other. Their median error, without its sign, is %.1f%%:\n%.1f%% where a CPU is "+
		"the lowest ceiling (%d points; four of five measured %.0f–%.0f%% of the forecast), %.1f%% where the link is (%d points; %.0f–%.0f%%).\n",
		len(points), n, 100*median, 100*cpuMedian, cpuN, 100*cpu.Low, 100*cpu.High, 100*linkMedian, linkN, 100*link.Low, 100*link.High)
	summary += carried(points, "19", "23")
	const path = "../../docs/plan.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "<!-- checked -->\n")
	if !found {
		t.Fatal(path + " has no mark for the table")
	}
	_, after, _ := strings.Cut(rest, "<!-- /checked -->")
	golden.Text(t, path, before+"<!-- checked -->\n\n"+summary+"\n| point | route | costs of | forecast | measured | error | why |\n|---|---|---|---:|---:|---:|---|\n"+
		rows.String()+"\nRefused:\n\n"+why.String()+"\n<!-- /checked -->"+after)
}

// carried forecasts one point from another one's costs on other machines.
func carried(points []record.Point, from, to string) string {
	var a, b *record.Point
	for i := range points {
		switch points[i].ID {
		case from:
			a = &points[i]
		case to:
			b = &points[i]
		}
	}
	server, generator := hosts(b, a)
	top := Make(costsOfPoint(a), server, generator).Sustained()
	return fmt.Sprintf("\nIn all of these the costs are from the same types of machines. The one pair of points with both costs whose generators differ, %s on\n"+
		"%s (%s workers) and %s on %s (%s workers), is off by more: the costs of the first give %s req/s (%s),\n%s were measured, %+.0f%%.\n",
		from, a.ClientInstance, workers(a), to, b.ClientInstance, workers(b), unit.FormatSI(top.PerS), top.Resource,
		unit.FormatSI(b.RPS.Value), 100*(b.RPS.Value/top.PerS-1))
}

func at(points []record.Point, p *record.Point) int {
	for i := range points {
		if &points[i] == p {
			return i
		}
	}
	return -1
}
