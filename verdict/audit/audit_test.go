package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

func journal(t testing.TB) []record.Point {
	t.Helper()
	f, err := os.Open("../../docs/journal/0022-published/records/points.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := record.ReadPoints(f)
	if err != nil {
		t.Fatal(err)
	}
	return file.Points
}

func points(t testing.TB, text string) []record.Point {
	t.Helper()
	file, err := record.ReadPoints(strings.NewReader("points:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Mistakes)+len(file.NotUnderstood) > 0 {
		t.Fatal(file.Mistakes, file.NotUnderstood)
	}
	return file.Points
}

// judgeOne judges a single point, written in one line.
func judgeOne(t testing.TB, text string) PointVerdict {
	t.Helper()
	return Judge(points(t, "- {"+text+"}\n")).Points[0]
}

// why is the reason of a verdict as it reads.
func why(v record.Verdict) string { return prose.Sentence(v.Because) }

// sentence is a statement that package prose knows.
func sentence(t testing.TB, s record.Statement) string {
	t.Helper()
	text := prose.Text(s)
	if text == "" || strings.Contains(text, "point.") || strings.Contains(text, "NaN") { // a code without its sentence reads as itself
		t.Errorf("%+v reads %q", s, text)
	}
	return text
}

func has(list []Inconsistency, kind string, parts ...string) bool {
	return slices.ContainsFunc(list, func(x Inconsistency) bool {
		for _, part := range parts {
			if !strings.Contains(prose.Text(x.Says), part) {
				return false
			}
		}
		return x.Kind == kind
	})
}

// What a reader of the journal has to be told, by the ids of its points.
func TestJudgePointsJournal(t *testing.T) {
	all := journal(t)
	v := Judge(all)
	at := func(id string) *PointVerdict {
		for i := range all {
			if all[i].ID == id {
				return &v.Points[i]
			}
		}
		t.Fatalf("no point %s", id)
		return nil
	}
	check := func(id string, outcome record.Outcome, bottleneck record.Bottleneck, because ...string) {
		t.Helper()
		got := at(id).Verdict
		if got.Outcome != outcome || got.Bottleneck != bottleneck {
			t.Errorf("point %s: %s, %s, want %s, %s: %s", id, got.Outcome, got.Bottleneck, outcome, bottleneck, why(got))
		}
		for _, part := range because {
			if !strings.Contains(why(got), part) {
				t.Errorf("point %s: no %q in: %s", id, part, why(got))
			}
		}
	}
	check("21", record.Invalid, record.Inconclusive, "Little's law", "200,000 slots", "4,913,152 req/s", "163,265 req/s")
	check("133", record.Valid, record.Bandwidth, "97%")
	check("134", record.Valid, record.Bandwidth, "98%", "6,122 MB/s of 6,250 MB/s")
	check("135", record.Valid, record.Bandwidth, "97%")
	check("130", record.Invalid, record.LoadGenerator, "from point 137", "another client got 1,741,517 req/s from the same server")
	for _, id := range []string{"136", "137"} {
		check(id, record.Valid, record.Inconclusive, "the generator was not measured (client_cpu_pct is missing)")
	}
	for _, id := range []string{"8", "9", "10", "11", "12"} {
		check(id, record.Invalid, record.LoadGenerator, "from point 16", "another client", "the target rate was not sent")
		says := ""
		for _, e := range at(id).Verdict.Evidence {
			says += prose.Text(e.Says) + "\n"
		}
		if !strings.Contains(says, "requests in flight: fewer than the server has CPUs") || !strings.Contains(says, "the link is at 2") {
			t.Errorf("point %s: evidence\n%s", id, says)
		}
	}
	check("36", record.Valid, record.ServerCPU, "88%", "11%", "14%")
	check("32", record.Invalid, record.LoadGenerator, "describes the generator")
	check("19", record.Invalid, record.LoadGenerator)
	check("23", record.Invalid, record.LoadGenerator, "89%")

	counts := map[string]int{}
	for i := range v.Points {
		counts[fmt.Sprint(v.Points[i].Verdict.Outcome, " ", v.Points[i].Verdict.Bottleneck)]++
	}
	if got := fmt.Sprint(counts); got != "map[invalid generator:23 invalid inconclusive:4 valid bandwidth:3 valid inconclusive:12 valid server CPU:3 valid server side:1]" {
		t.Error(got)
	}
}

func TestJudgePointsJournalInconsistencies(t *testing.T) {
	all := journal(t)
	v := Judge(all)
	inconsistent := func(id, kind string, parts ...string) {
		t.Helper()
		i := slices.IndexFunc(all, func(p record.Point) bool { return p.ID == id })
		if got := v.Points[i].Inconsistencies; !has(got, kind, parts...) {
			t.Errorf("point %s: no %s with %q in %v", id, kind, parts, got)
		}
	}
	inconsistent("21", KindLittle, "4,913,152 req/s would need 3,006,849 in flight")
	inconsistent("30", KindLittle, "402 ms", "below the median of 485 ms")
	inconsistent("134", KindUnit, "98.0%, not 90%", "5,838 MiB/s", "binary units")
	inconsistent("14", KindUnit, "213 fits as MiB only: 223 MB/s")
	inconsistent("4", KindUnit, "78.39 GiB in 90 s = 935 MB/s", "thousandths of a GiB")
	inconsistent("17", KindCPU, "usr 0.81 is only part of the row", "softirq")
	inconsistent("19", KindCPU, "= 87.95, not 100", "12.05%")
	inconsistent("32", KindCPU, "= 94, not 100: 6%")
	inconsistent("19", KindTotals, "656,208 req/s, not 634,823 req/s")
	inconsistent("19", KindBytes, "52.2 MB/s", "36% less")
	inconsistent("32", KindBytes, "generator's count")
	inconsistent("17", KindConnections, "960 connections, not 1,000")
	inconsistent("12", KindSchedule, "8,257 req/s of 1,500,000 req/s")
	if !has(v.Between, KindUnequal, "client_workers (60 / 30), duration_s (not stated / 30) at once") {
		t.Errorf("no unequal runs in %v", v.Between)
	}
}

// No row whose generator was not measured is laid to anything by its own
// figures, and each one that no arithmetic and no other row decides says what is
// missing.
func TestPointsGeneratorNotMeasured(t *testing.T) {
	all := journal(t)
	for _, p := range all {
		// Each with a server that looks full, and its generator not measured.
		busy := p
		busy.ClientCPUPct, busy.ServerCPUPct, busy.ServerCPUDetail = record.Figure{}, record.Figure{Value: 99, Known: true}, ""
		all = append(all, busy)
	}
	for i, got := range Judge(all).Points {
		if all[i].ClientCPUPct.Known {
			continue
		}
		switch v := got.Verdict; v.Bottleneck {
		case record.Inconclusive:
			if !strings.Contains(why(v), "the generator was not measured (client_cpu_pct is missing)") &&
				!strings.HasPrefix(why(v), "Little's law") {
				t.Errorf("point %s does not say so: %s", got.Label, why(v))
			}
		case record.Bandwidth:
		default:
			if len(got.From) == 0 || !strings.Contains(why(v), "from point "+got.From[0]) ||
				!strings.Contains(strings.Join(prose.Texts(v.Caveats), "\n"), "one step weaker") {
				t.Errorf("point %s is %s: %s, from %v", got.Label, v.Bottleneck, why(v), got.From)
			}
		}
	}
}

// What people wrote about a point decides nothing.
func TestPointsWordsDoNotDecide(t *testing.T) {
	all := journal(t)
	want := Judge(all)
	for _, words := range []string{"", "server CPU, client bound, NIC bound, void"} {
		blank := slices.Clone(all)
		for i := range blank {
			p := &blank[i]
			// The id is kept: verdicts name the points that they stand on by it.
			p.Entry, p.Config, p.Note, p.AuthorVerdict, p.Reading, p.Range, p.ServerProcessCPU = words, words, words, words, words, words, words
		}
		for i, got := range Judge(blank).Points {
			if d, w := fmt.Sprintf("%+v %v", got.Verdict, got.Missing),
				fmt.Sprintf("%+v %v", want.Points[i].Verdict, want.Points[i].Missing); got.Verdict.NextBottleneck == nil && d != w {
				t.Errorf("point %s with %q: %s\nwant %s", all[i].ID, words, d, w)
			}
			if a, b := got.Verdict, want.Points[i].Verdict; a.Outcome != b.Outcome || a.Bottleneck != b.Bottleneck || why(a) != why(b) {
				t.Errorf("point %s with %q: %s, %s: %s", all[i].ID, words, a.Outcome, a.Bottleneck, why(a))
			}
		}
	}
}

// The order of the file changes nothing, and the company of a point no bottleneck
// that its own figures show.
func TestPointsAlone(t *testing.T) {
	all := journal(t)
	want := Judge(all)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(all))
	shuffled := make([]record.Point, len(all))
	for i, j := range order {
		shuffled[i] = all[j]
	}
	got := Judge(shuffled)
	for i, j := range order {
		if why(got.Points[i].Verdict) != why(want.Points[j].Verdict) {
			t.Errorf("point %s in another order: %s", all[j].ID, why(got.Points[i].Verdict))
		}
	}
	for i := range all {
		if len(want.Points[i].From) > 0 {
			if alone := Judge(all[i : i+1]).Points[0]; alone.Verdict.Bottleneck != record.Inconclusive || len(alone.From) > 0 {
				t.Errorf("point %s alone: %s, from %v", all[i].ID, alone.Verdict.Bottleneck, alone.From)
			}
			continue
		}
		if alone := Judge(all[i : i+1]).Points[0].Verdict; alone.Bottleneck != want.Points[i].Verdict.Bottleneck ||
			alone.Outcome != want.Points[i].Verdict.Outcome {
			t.Errorf("point %s alone: %s, %s", all[i].ID, alone.Outcome, alone.Bottleneck)
		}
	}
}

// With one figure less a bottleneck stays what it was or becomes undetermined,
// and then the figure is named.
func TestPointsWithOneFigureLess(t *testing.T) {
	needs.Time(t)
	for _, alone := range []bool{false, true} {
		all := journal(t)
		want := Judge(all)
		degraded := 0
		for i := range all {
			figures := all[i].Figures()
			for _, f := range figures {
				if !f.Figure.Known {
					continue
				}
				kept := *f.Figure
				*f.Figure = record.Figure{}
				var got PointVerdict
				if alone {
					got = Judge(all[i : i+1]).Points[0]
				} else {
					got = Judge(all).Points[i]
				}
				*f.Figure = kept
				before := want.Points[i].Verdict.Bottleneck
				switch {
				case got.Verdict.Bottleneck == before && (before != record.Inconclusive || got.Verdict.Outcome == want.Points[i].Verdict.Outcome):
				case len(want.Points[i].From) > 0 && got.Verdict.Bottleneck == record.Inconclusive:
					// What the comparison stood on is not stated any more.
				case len(got.From) > 0 && (before == record.Inconclusive || before == record.LoadGenerator && f.Key != "client_cpu_pct"):
					// Nothing of its own speaks against what the others show.
				case got.Verdict.Bottleneck != record.Inconclusive:
					t.Errorf("point %s without %s: %s becomes %s", all[i].ID, f.Key, before, got.Verdict.Bottleneck)
				case f.Key == "target_rps" || f.Key == "rps" && got.Verdict.Outcome == record.Invalid:
					// Without it there is no schedule to miss, or nothing to judge.
				default:
					degraded++
					if !slices.Contains(got.Missing, f.Key) || !strings.Contains(why(got.Verdict), f.Key) {
						t.Errorf("point %s without %s does not name it: %v: %s", all[i].ID, f.Key, got.Missing, why(got.Verdict))
					}
				}
			}
		}
		if degraded < 10 {
			t.Errorf("%d verdicts hung on a single figure: the test tests nothing", degraded)
		}
	}
}

// Machines k times as large, and a clock k times as fast, change no verdict.
func TestPointsScale(t *testing.T) {
	want := Judge(journal(t))
	check := func(name string, scale func(p *record.Point, k float64)) {
		for _, k := range []float64{0.5, 2, 8} {
			all := journal(t)
			for i := range all {
				scale(&all[i], k)
			}
			for i, got := range Judge(all).Points {
				if b := want.Points[i].Verdict; got.Verdict.Outcome != b.Outcome || got.Verdict.Bottleneck != b.Bottleneck {
					t.Errorf("%s × %g: point %s: %s, %s, want %s, %s", name, k, got.Label, got.Verdict.Outcome, got.Verdict.Bottleneck, b.Outcome, b.Bottleneck)
				}
			}
		}
	}
	times := func(k float64, list ...*record.Figure) {
		for _, f := range list {
			f.Value *= k
			if f.Known && k < 1 {
				f.Decimals += 3
			}
		}
	}
	size := func(p *record.Point, k float64) {
		times(k, &p.RPS, &p.PeakRPS, &p.TargetRPS, &p.TotalRequests, &p.TotalRequestsK, &p.TotalReadGB, &p.NICGbps, &p.NICMBS,
			&p.ClientThroughput)
	}
	check("size", func(p *record.Point, k float64) {
		size(p, k)
		// Workers and their shares of connections grow together.
		times(k, &p.Connections, &p.Established, &p.ClientWorkers, &p.VCPUs, &p.ClientVCPUs)
	})
	check("clock", func(p *record.Point, k float64) {
		size(p, k)
		times(1/k, &p.P50Ms, &p.P75Ms, &p.P90Ms, &p.P95Ms, &p.P99Ms, &p.LatencyAvgMs, &p.LatencyMaxMs, &p.LatencyP2_5Ms, &p.LatencyP97_5Ms)
	})
}

const (
	// sound is a run of which everything is known and nothing is full.
	sound = "connections: 96, pipelining: 1, client_workers: 16, client_vcpus: 16, vcpus: 16, nic_gbps: 10, rps: 96000, p50_ms: 0.9, p99_ms: 3.1, latency_avg_ms: 1.0, " +
		"client_throughput_mb_s: 96, server_cpu_pct: 40, client_cpu_pct: 30"
)

// but replaces figures of a point that is written in one line.
func but(point string, changes ...string) string {
	parts := strings.Split(point, ", ")
	for _, change := range changes {
		key, _, set := strings.Cut(change, ": ")
		parts = slices.DeleteFunc(parts, func(s string) bool { return strings.HasPrefix(s, key+": ") })
		if set {
			parts = append(parts, change)
		}
	}
	return strings.Join(parts, ", ")
}

func TestPointsBottlenecks(t *testing.T) {
	check := func(name, text string, outcome record.Outcome, bottleneck record.Bottleneck, because string) {
		t.Run(name, func(t *testing.T) {
			got := judgeOne(t, text)
			if v := got.Verdict; v.Outcome != outcome || v.Bottleneck != bottleneck || !strings.Contains(why(v), because) {
				t.Errorf("%s, %s: %s", v.Outcome, v.Bottleneck, why(v))
			}
		})
	}
	check("nothing full", sound, record.Valid, record.Inconclusive, "no measured resource is saturated")
	check("server", but(sound, "server_cpu_pct: 97"), record.Valid, record.ServerCPU, "97%")
	check("server nearly", but(sound, "server_cpu_pct: 84"), record.Valid, record.Inconclusive, "no measured resource is saturated")
	check("generator", but(sound, "client_cpu_pct: 97"), record.Invalid, record.LoadGenerator, "97%")
	check("both", but(sound, "client_cpu_pct: 97", "server_cpu_pct: 99"), record.Invalid, record.LoadGenerator, "97%")
	check("generator neither full nor free", but(sound, "client_cpu_pct: 78", "server_cpu_pct: 99"), record.Valid, record.Inconclusive,
		"generator 78%")
	check("one full worker of a large host", but(sound, "client_workers: 1", "client_cpu_pct: 6.2", "server_cpu_pct: 99"), record.Invalid,
		record.LoadGenerator, "99.2%")
	check("workers not known", but(sound, "client_workers", "server_cpu_pct: 99"), record.Valid, record.Inconclusive,
		"client_workers is missing")
	check("link", but(sound, "client_throughput_mb_s: 1230"), record.Valid, record.Bandwidth, "99.2%")
	check("link and generator", but(sound, "client_throughput_mb_s: 1230", "client_cpu_pct: 99"), record.Valid, record.Bandwidth, "99.2%")
	check("link by body", but(sound, "client_throughput_mb_s", "body_bytes: 12700"), record.Valid, record.Bandwidth, "99%")
	check("more than the link", but(sound, "client_throughput_mb_s: 1300"), record.Invalid, record.Inconclusive, "more than the link can carry")
	check("server, but link nearly full", but(sound, "client_throughput_mb_s: 1100", "server_cpu_pct: 99"), record.Valid, record.Inconclusive,
		"link 8")
	check("target rate reached", but(sound, "target_rps: 96000"), record.Valid, record.TargetRate, "no bottleneck was reached")
	check("asked rate missed", but(sound, "target_rps: 120000"), record.Invalid, record.Inconclusive, "80%")
	check("asked rate missed, generator", but(sound, "target_rps: 120000", "client_cpu_pct: 99"), record.Invalid, record.LoadGenerator, "80%")
	check("mean above the slots", but(sound, "latency_avg_ms: 1.5"), record.Invalid, record.Inconclusive, "the rate can be at most")
	check("half of the median is above the slots", but(sound, "latency_avg_ms", "p50_ms: 2.5", "p99_ms: 4"), record.Invalid,
		record.Inconclusive, "half of the requests")
	check("median above the slots", but(sound, "latency_avg_ms", "p50_ms: 1.5"), record.Valid, record.Inconclusive, "no measured resource")
	check("one slow hundredth is above the slots", but(sound, "latency_avg_ms", "p99_ms: 130"), record.Invalid, record.Inconclusive,
		"the printed percentiles")
	check("open loops have no slots", but(sound, "latency_avg_ms: 100.5", "p99_ms: 500", "target_rps: 96000"), record.Valid,
		record.TargetRate, "")
	check("totals", but(sound, "total_requests: 900000", "elapsed_s: 30"), record.Invalid, record.Inconclusive, "30,000 req/s")
	check("no rate", but(sound, "rps"), record.Invalid, record.Inconclusive, "rps is missing")
	check("a rate of nothing", but(sound, "rps: 0"), record.Invalid, record.Inconclusive, "rps is missing")
	check("only a rate", "rps: 1000", record.Valid, record.Inconclusive, "the generator was not measured")
	check("usr is not the server", but(sound, "server_cpu_pct: 90", "server_cpu_detail: usr 70 sys 20"), record.Valid, record.Inconclusive,
		"categories are missing")
	check("usr is not a free generator", but(sound, "server_cpu_pct: 99", "client_cpu_pct: 20", "client_cpu_detail: usr 20"), record.Valid,
		record.Inconclusive, "categories are missing")
	check("usr is a full generator", but(sound, "client_cpu_pct: 90", "client_cpu_detail: usr 90"), record.Invalid, record.LoadGenerator,
		"90%")
	check("idle contradicts", but(sound, "server_cpu_pct: 99", "server_cpu_detail: usr 20 sys 10 soft 10 idle 60"), record.Valid,
		record.Inconclusive, "contradict")
	check("adds up to too much", but(sound, "client_cpu_pct: 99", "client_cpu_detail: usr 90 sys 30 idle 1"), record.Valid,
		record.Inconclusive, "adds up to 121")
	check("percent of one core", but(sound, "client_cpu_pct: 640", "server_cpu_pct: 99"), record.Valid, record.Inconclusive,
		"client_cpu_pct is missing")
	check("a detail is no measurement of the whole",
		but(sound, "server_cpu_pct: 99", "client_cpu_pct", "client_cpu_detail: usr 5 sys 5 idle 90"), record.Valid, record.Inconclusive,
		"client_cpu_pct is missing")
}

func TestPointsInconsistencies(t *testing.T) {
	check := func(name, text, kind string, parts ...string) {
		t.Run(name, func(t *testing.T) {
			if got := judgeOne(t, text).Inconsistencies; !has(got, kind, parts...) {
				t.Errorf("no %s with %q in %v", kind, parts, got)
			}
		})
	}
	none := func(name, text string, kinds ...string) {
		t.Run(name, func(t *testing.T) {
			for _, x := range judgeOne(t, text).Inconsistencies {
				if len(kinds) == 0 || slices.Contains(kinds, x.Kind) {
					t.Errorf("%s: %s", x.Kind, prose.Text(x.Says))
				}
			}
		})
	}
	none("sound", sound)
	check("order", but(sound, "p99_ms: 0.5"), KindOrder, "p50_ms = 900 µs is above p99_ms = 500 µs")
	check("mean above the maximum", but(sound, "latency_max_ms: 0.8"), KindOrder, "above the maximum")
	check("mean below what the percentiles allow", but(sound, "latency_avg_ms: 1.0", "p50_ms: 2.5"), KindOrder,
		"the percentiles put the mean at")
	check("zero", but(sound, "p50_ms: 0"), KindResolution, "less than 1.00 ms")
	check("more than the slots", but(sound, "latency_avg_ms: 1.08"), KindLittle,
		"= 104 requests in flight, but there are 96 connections × 1 = 96 slots")
	check("idle slots", but(sound, "latency_avg_ms: 0.7"), KindLittle, "of 96 slots: the rest were idle")
	check("author's product", but(sound, "in_flight_little: 12"), KindLittle, "not 12")
	none("author's product is right", but(sound, "in_flight_little: 86.4"))
	check("MiB", but(sound, "client_throughput_mb_s: 91.6", "mean_response_bytes: 1000"), KindUnit, "91.6 fits as MiB only: 96 MB/s")
	none("wrk means MiB", but(sound, "client_throughput_mb_s: 91.6", "mean_response_bytes: 1000", "client_tool: wrk"))
	check("bytes", but(sound, "client_throughput_mb_s: 50", "mean_response_bytes: 1000"), KindBytes, "48% off")
	check("bytes of the body", but(sound, "client_throughput_mb_s: 50", "body_bytes: 1000"), KindBytes, "of body")
	none("heads are bytes too", but(sound, "client_throughput_mb_s: 110", "body_bytes: 1000"))
	check("total read", but(sound, "total_read_gb: 5", "duration_s: 30"), KindBytes, "5 GB in 30 s = 167 MB/s")
	check("link in MiB", but(sound, "nic_mb_s: 92"), KindUnit, "fits as MiB/s")
	check("link below what was read", but(sound, "nic_mb_s: 60"), KindBytes, "38% less")
	check("link copied", but(sound, "nic_mb_s: 96"), KindBytes, "generator's count")
	check("author's share, MiB for MB", but(sound, "nic_mb_s: 100", "nic_pct_author: 7.63"), KindUnit, "MiB taken for MB")
	check("author's share, binary", but(sound, "nic_mb_s: 100", "nic_pct_author: 7.45"), KindUnit, "binary units")
	none("author's share is right", but(sound, "nic_mb_s: 100", "nic_pct_author: 8.0"))
	check("baseline", but(sound, "nic_gbps_spec: 0.5"), KindBaseline, "server's instance")
	check("baseline of the generator", but(sound, "client_nic_gbps_spec: 0.5"), KindBaseline, "generator's instance")
	check("link", but(sound, "client_throughput_mb_s: 1300"), KindLink, "10 Gbit/s")
	check("totals", but(sound, "total_requests: 3000000", "elapsed_s: 30"), KindTotals, "100,000 req/s, not 96,000 req/s (4.2% off)")
	none("totals over the asked time", but(sound, "total_requests: 3000000", "duration_s: 30"))
	check("peak", but(sound, "peak_rps: 90000"), KindTotals, "peak")
	check("connections", but(sound, "connections: 100", "latency_avg_ms: 1.0", "client_tool: wrk"), KindConnections,
		"16 workers × floor(100 ÷ 16) = 96 connections, not 100")
	check("wrk wants a connection for each thread", but(sound, "connections: 12", "client_tool: wrk"), KindConnections,
		"wrk does not accept 12 connections with 16 threads")
	check("autocannon opens one for each worker", but(sound, "connections: 12", "client_tool: autocannon"), KindConnections,
		"16 workers × max(1, floor(12 ÷ 16)) = 16 connections, not 12")
	none("h2load opens all", but(sound, "connections: 100", "client_tool: h2load", "latency_avg_ms: 1.0", "client_throughput_mb_s"))
	none("a tool that is not known", but(sound, "connections: 100", "latency_avg_ms: 1.0"), KindConnections)
	none("whole milliseconds are no idle slots", but(sound, "client_tool: autocannon", "latency_avg_ms: 0.21", "p50_ms: 0", "p99_ms: 2"),
		KindLittle)
	check("idle slots of a finer tool", but(sound, "client_tool: oha", "latency_avg_ms: 0.21", "p50_ms: 0.2", "p99_ms: 2"), KindLittle,
		"the rest were idle")
	nan := []record.Point{{RPS: record.Figure{Value: math.NaN(), Known: true}}}
	if got := Judge(nan).Points[0].Inconsistencies; !has(got, KindField, "rps is not a number") {
		t.Errorf("no number: %v", got)
	}
	check("below zero", but(sound, "p50_ms: -3"), KindField, "below zero")
	check("zero connections", but(sound, "connections: 0"), KindField, "is 0")
	check("above 100%", but(sound, "server_cpu_pct: 180"), KindField, "percent of one core")
	check("too much came", but(sound, "target_rps: 50000"), KindSchedule, "96,000 req/s is above the target rate of 50,000 req/s")
	check("rows", but(sound, "server_cpu_detail: 'usr: 20%, sys=10, id 60'"), KindCPU, "= 90, not 100")
	none("a row that adds up", but(sound, "server_cpu_detail: usr 20 sys 10 soft 10 idle 60"))
	none("prose about cores", but(sound, "server_cpu_detail: all idle cores; about 5 usr of something; sys"))
}

func TestPointsBetween(t *testing.T) {
	row := func(changes ...string) string { return "- {" + but("entry: '1', "+sound, changes...) + "}\n" }
	check := func(name, text, kind string, parts ...string) {
		t.Run(name, func(t *testing.T) {
			if got := Judge(points(t, text)).Between; !has(got, kind, parts...) {
				t.Errorf("no %s with %q in %v", kind, parts, got)
			}
		})
	}
	none := func(name, text string) {
		t.Run(name, func(t *testing.T) {
			if got := Judge(points(t, text)).Between; len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
	check("identical under two labels", row("route: /a")+row("route: /b"), KindIdentical, "96,000 req/s", "p50_ms", "route (/a / /b)")
	check("identical in nothing but an exact rate", row("rps: 96123.4", "route: /a")+"- {entry: '1', rps: 96123.4, route: /b}\n",
		KindIdentical, "96,123 req/s")
	check("twice the same", row()+row(), KindIdentical, "the stated conditions of the two runs are the same")
	none("a round rate twice", "- {rps: 96000, route: /a}\n- {rps: 96000, route: /b}\n")
	none("the same rate, another median", row("route: /a")+row("route: /b", "p50_ms: 0.8"))
	none("one step", row("rps: 90000", "connections: 48")+row("rps: 96001"))
	none("a chain of steps", row("rps: 90000")+row("rps: 91000", "pipelining: 2")+row("rps: 92000", "pipelining: 2", "duration_s: 5"))
	check("two steps at once", row("rps: 90000")+row("rps: 92000", "pipelining: 2", "client_workers: 8"), KindUnequal, "client_workers",
		"pipelining (2 / 1)")
	none("two entries", row("rps: 90000")+row("rps: 92000", "pipelining: 2", "client_workers: 8", "entry: '2'"))
	none("no entry", row("rps: 90000", "entry")+row("rps: 92000", "pipelining: 2", "client_workers: 8", "entry"))
	check("a file of copies", strings.Repeat(row(), 50), KindIdentical, "further pairs are not listed")
	many := ""
	for i := range maxCompared + 1 {
		many += row(fmt.Sprintf("rps: %d", 90000+i), fmt.Sprintf("duration_s: %d", i+1), fmt.Sprintf("connections: %d", 16*(i+1)))
	}
	check("too many to compare", many, KindUnequal, "only 400 are compared")
}

// Points of one file inform each other in evidence and caveats.
func TestPointsPeers(t *testing.T) {
	all := points(t, "- {server_instance: big, "+sound+"}\n- {server_instance: big, "+but(sound, "client_cpu_pct",
		"server_cpu_pct: 80")+"}\n- {server_instance: big, "+
		but(sound, "server_cpu_pct: 83", "connections: 192", "rps: 154000", "client_cpu_pct")+"}\n")
	v := Judge(all)
	caveats := strings.Join(prose.Texts(v.Points[1].Verdict.Caveats), "\n")
	for _, want := range []string{"80.0% CPU is not this server's limit: the same server ran at 83.0%",
		"with 2× the connections and nothing else stated to differ, another run had 1.60× the rate: concurrency limited this run"} {
		if !strings.Contains(caveats, want) {
			t.Errorf("no %q in:\n%s", want, caveats)
		}
	}
	// The bytes of a route stand in for those that are not stated.
	server := but(sound, "server_cpu_pct: 99", "client_throughput_mb_s", "route: /a")
	if got := judgeOne(t, server).Verdict; got.Bottleneck != record.Inconclusive {
		t.Errorf("without bytes: %s", got.Bottleneck)
	}
	if got := Judge(points(t, "- {"+server+"}\n- {route: /a, rps: 10, body_bytes: 500}\n")).Points[0].Verdict; got.Bottleneck != record.ServerCPU {
		t.Errorf("with the bytes of its route: %s: %s", got.Bottleneck, why(got))
	}
	if got := Judge(points(t, "- {"+server+"}\n- {route: /a, rps: 10, body_bytes: 11000}\n")).Points[0].Verdict; got.Bottleneck != record.Inconclusive {
		t.Errorf("with large bytes of its route: %s: %s", got.Bottleneck, why(got))
	}
}

// Whatever the figures are, each point gets a verdict that is complete, and
// no server is named beside a generator that is unknown.
func FuzzJudgePoints(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(3), uint64(0))
	all := journal(f)
	f.Fuzz(func(t *testing.T, seed, spread uint64) {
		r := rand.New(rand.NewPCG(seed, spread))
		some := make([]record.Point, 1+r.IntN(6))
		for i := range some {
			some[i] = all[r.IntN(len(all))]
			for _, fig := range some[i].Figures() {
				switch r.IntN(8) {
				case 0:
					*fig.Figure = record.Figure{}
				case 1:
					*fig.Figure = record.Figure{Value: math.Float64frombits(r.Uint64()), Known: true}
				case 2:
					*fig.Figure = record.Figure{Value: math.Exp(20 * r.NormFloat64()), Known: true, Decimals: r.IntN(4)}
				}
			}
		}
		for i, got := range Judge(some).Points {
			v := got.Verdict
			if v.Outcome == "" || v.Bottleneck == "" || len(v.Because) == 0 || len(v.Next) == 0 {
				t.Errorf("incomplete: %+v", got)
			}
			if strings.HasPrefix(string(v.Bottleneck), "server") && !some[i].ClientCPUPct.Known && len(got.From) == 0 {
				t.Errorf("%s with a generator that was not measured: %+v", v.Bottleneck, got)
			}
			for _, s := range slices.Concat(v.Because, v.Caveats, v.Next) {
				sentence(t, s)
			}
			for _, e := range v.Evidence {
				sentence(t, e.Says)
			}
			for _, x := range got.Inconsistencies {
				if sentence(t, x.Says); len(x.Keys) == 0 {
					t.Errorf("inconsistency %+v", x)
				}
			}
		}
	})
}
