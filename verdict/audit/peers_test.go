package audit

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// bare is a run of which little is stated: what limits it only others can show.
const bare = "server_kind: a, server_instance: big, vcpus: 16, client_tool: wrk, client_instance: small, client_vcpus: 8, client_workers: 8, route: /r, " +
	"pipelining: 1, connections: 64, nic_gbps: 10, rps: 50000"

// TestPointsFromOthers: what one row leaves open another may show, by name, and
// what does not follow is not said.
func TestPointsFromOthers(t *testing.T) {
	check := func(name string, outcome record.Outcome, bottleneck record.Bottleneck, because, first string, others ...string) {
		t.Run(name, func(t *testing.T) {
			text := "- {id: 1, " + first + "}\n"
			for i, other := range others {
				text += fmt.Sprintf("- {id: %d, %s}\n", i+2, other)
			}
			got := Judge(points(t, text)).Points[0]
			v := got.Verdict
			if v.Outcome != outcome || v.Bottleneck != bottleneck || !strings.Contains(why(v), because) {
				t.Errorf("%s, %s: %s", v.Outcome, v.Bottleneck, why(v))
			}
			if named := bottleneck != record.Inconclusive; named != (len(got.From) > 0) || named &&
				!strings.Contains(why(v), "from point "+got.From[0]) {
				t.Errorf("from %v: %s", got.From, why(v))
			}
		})
	}
	check("alone", record.Valid, record.Inconclusive, "was not measured", bare)

	// The generator's CPU per request.
	full := but(bare, "rps: 52000", "client_cpu_pct: 96", "connections: 128")
	check("generator", record.Invalid, record.LoadGenerator, "at least 92%", bare, full)
	check("generator at a higher rate", record.Invalid, record.LoadGenerator, "at least 96%", but(bare, "rps: 60000"), full)
	check("generator at half the rate", record.Valid, record.Inconclusive, "", but(bare, "rps: 26000"), but(full, "connections: 64"))
	for _, other := range []string{"client_tool: hey", "client_instance: large", "client_vcpus: 16", "client_workers: 4", "route: /other",
		"pipelining: 2"} {
		check("generator, other "+other, record.Valid, record.Inconclusive, "", bare, but(full, other, "server_kind: b"))
	}
	check("generator refused there", record.Valid, record.Inconclusive, "", bare, but(full, "client_cpu_detail: usr 20 sys 10 idle 70"))
	check("generator measured here", record.Valid, record.Inconclusive, "", but(bare, "client_cpu_pct: 40", "server_cpu_pct: 40"), full)

	// The server's, beside a generator that is shown to be free.
	busy := "server_cpu_pct: 92"
	free := but(bare, "rps: 51000", "client_cpu_pct: 20", "server_kind: c", "body_bytes: 1000")
	check("server, generator by another run", record.Valid, record.ServerCPU, "at least 92%", but(bare, busy), free)
	check("server by another run", record.Valid, record.ServerCPU, "at least 90%", bare,
		but(bare, busy, "rps: 51000", "client_cpu_pct: 20", "body_bytes: 1000"))
	check("server, link not known", record.Valid, record.Inconclusive, "", but(bare, busy), but(free, "body_bytes"))
	check("server, generator nearly full elsewhere", record.Valid, record.Inconclusive, "", but(bare, busy), but(free, "client_cpu_pct: 80"))
	check("server not full", record.Valid, record.Inconclusive, "", but(bare, "server_cpu_pct: 80"), free)
	check("server that gave more to another client", record.Valid, record.Inconclusive, "", but(bare, busy), free,
		but(bare, "client_instance: large", "rps: 70000"))

	// Another server, the same client.
	faster := but(bare, "server_kind: b", "rps: 61000")
	check("server side", record.Valid, ServerSide, "the same client got 61,000 req/s from another server, 1.22×", bare, faster)
	check("server side and its full CPU", record.Valid, record.ServerCPU, "the same client got 1.22×", but(bare, busy), faster)
	check("server side, idle CPU", record.Valid, ServerSide, "its CPU is not saturated, 30%", but(bare, "server_cpu_pct: 30"), faster)
	check("not enough", record.Valid, record.Inconclusive, "", bare, but(faster, "rps: 59000"))
	check("not enough for an approximate rate", record.Valid, record.Inconclusive, "", bare, but(faster, "approx: true"))
	check("more connections explain it", record.Valid, record.Inconclusive, "", bare, but(faster, "connections: 128", "rps: 110000"))
	check("more than the connections explain", record.Valid, ServerSide, "", bare, but(faster, "connections: 128", "rps: 130000"))
	check("far fewer connections", record.Valid, record.Inconclusive, "", bare, but(faster, "connections: 16"))
	check("connections not stated", record.Valid, record.Inconclusive, "", but(bare, "connections"), but(faster, "connections"))
	check("smaller responses", record.Valid, record.Inconclusive, "", but(bare, "body_bytes: 1000"), but(faster, "body_bytes: 500"))
	check("the same server with more said of it", record.Valid, record.Inconclusive, "", bare, but(faster, "server_kind: a (8 children)"))
	check("a server that is not stated", record.Valid, record.Inconclusive, "", bare, but(faster, "server_kind: not stated (b)"))
	check("a run that cannot be", record.Valid, record.Inconclusive, "", bare, but(faster, "p50_ms: 100"))
	check("an asked rate", record.Valid, record.Inconclusive, "", bare, but(faster, "target_rps: 61000"))
	check("an open loop that fell short", record.Invalid, ServerSide, "the target rate was not sent",
		but(bare, "target_rps: 90000", "connections"), but(faster, "target_rps: 90000", "connections"))

	// Another client, the same server.
	stronger := but(bare, "client_instance: large", "rps: 61000")
	check("client", record.Invalid, record.LoadGenerator, "another client got 61,000 req/s from the same server, 1.22×", bare, stronger)
	check("client, more connections", record.Valid, record.Inconclusive, "", bare, but(stronger, "connections: 100", "rps: 90000"))
	check("client that was free", record.Valid, record.Inconclusive, "", but(bare, "client_cpu_pct: 30"), stronger)
	check("both ways", record.Valid, record.Inconclusive, "", bare, faster, stronger)

	// The connections, the link.
	check("connections", record.Valid, record.Concurrency, "with 2× as many", bare, but(bare, "connections: 128", "rps: 95000"))
	check("connections, half", record.Valid, record.Inconclusive, "", bare, but(bare, "connections: 128", "rps: 75000"))
	check("connections of a full server", record.Valid, record.Inconclusive, "", but(bare, busy),
		but(bare, "connections: 128", "rps: 95000"))
	check("link", record.Valid, record.Bandwidth, "of its 10 Gbit/s", bare, "route: /r, rps: 10, body_bytes: 24500")
	check("link that cannot carry it", record.Valid, record.Inconclusive, "", bare, "route: /r, rps: 10, body_bytes: 34500")
	check("link, bytes that differ", record.Valid, record.Inconclusive, "", bare, "route: /r, rps: 10, body_bytes: 24500",
		"route: /r, rps: 10, body_bytes: 500")
}

// TestPointsRepairUnit reads a printed MB/s by the bytes that another run counted.
func TestPointsRepairUnit(t *testing.T) {
	row := but(bare, "client_tool: sometool", "client_throughput_mb_s: 1150")
	judge := func(other string) PointVerdict {
		return Judge(points(t, "- {id: 1, "+row+"}\n- {id: 2, route: /r, rps: 10, "+other+"}\n")).Points[0]
	}
	// 1150 MiB/s ÷ 50,000 /s = 24,117 bytes.
	if got := judge("mean_response_bytes: 24117"); got.Verdict.Bottleneck != record.Bandwidth ||
		!has(got.Inconsistencies, KindUnit, "point 2, the same route, has 24,117, which fits MiB/s only") {
		t.Errorf("%s: %s, %v", got.Verdict.Bottleneck, why(got.Verdict), got.Inconsistencies)
	}
	for _, other := range []string{"mean_response_bytes: 23000", "mean_response_bytes: 5000", "client_throughput_mb_s: 2"} {
		if got := judge(other); got.Verdict.Bottleneck != record.Inconclusive || has(got.Inconsistencies, KindUnit) {
			t.Errorf("%s: %s, %v", other, why(got.Verdict), got.Inconsistencies)
		}
	}
}

// TestPointsServerCPUsUsed: a server that may use a part of its host is full
// when that part is.
func TestPointsServerCPUsUsed(t *testing.T) {
	check := func(name, text string, bottleneck record.Bottleneck, because string) {
		t.Helper()
		if v := judgeOne(t, text).Verdict; v.Bottleneck != bottleneck || !strings.Contains(why(v), because) {
			t.Errorf("%s: %s: %s", name, v.Bottleneck, why(v))
		}
	}
	check("the whole host", but(sound, "server_cpu_pct: 24"), record.Inconclusive, "no measured resource")
	check("4 of 16", but(sound, "server_cpu_pct: 24", "server_cpus_used: 4"), record.ServerCPU, "96% of the 4 CPUs it may use busy")
	check("4 of 16, idle", but(sound, "server_cpu_pct: 12", "server_cpus_used: 4"), record.Inconclusive, "server's CPU 48%")
	check("others on its host", but(sound, "server_cpu_pct: 60", "server_cpus_used: 4"), record.Inconclusive, "other processes ran on its host")
	check("the measured use", but(sound, "server_cpu_pct: 40", "server_cpus_used: 6.4"), record.Inconclusive, "no measured resource")
	check("a quota", but(sound, "server_cpu_pct: 9", "server_cpus_used: 1.5"), record.ServerCPU, "the 1.5 CPUs")
	check("more than there are", but(sound, "server_cpu_pct: 24", "server_cpus_used: 40"), record.Inconclusive, "no measured resource")
	for _, text := range []string{"server_cpus_used: 40", "server_cpus_used: 4, server_cpu_pct: 60",
		"server_cpus_used: 6.4, server_cpu_pct: 40"} {
		if got := judgeOne(t, but(sound, strings.Split(text, ", ")...)); !has(got.Inconsistencies, KindCPU) {
			t.Errorf("%s: %v", text, got.Inconsistencies)
		}
	}
}

// corrected is what wrk prints of latencies: its stats_correct with the mean
// interval of a connection's responses, in microseconds.
func corrected(latencies []int) (mean, median float64) {
	sum := 0
	for _, x := range latencies {
		sum += x
	}
	expected := sum / len(latencies)
	all := slices.Clone(latencies)
	for _, x := range latencies {
		if x < 2*expected {
			continue
		}
		for m := x - expected; m > expected; m -= expected {
			all = append(all, m)
		}
	}
	slices.Sort(all)
	sum = 0
	for _, x := range all {
		sum += x
	}
	return float64(sum) / float64(len(all)), float64(all[len(all)/2])
}

// TestPointsWrkIsCorrected holds the bound that Little's law keeps for wrk: its
// median is at most twice the true mean, whatever the latencies are. Its mean has
// no bound, and never voids a run.
func TestPointsWrkIsCorrected(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	inflated := 0
	for range 300 {
		latencies := make([]int, 200+r.IntN(2000))
		tail, factor := r.Float64(), 1+r.IntN(2000)
		sum := 0
		for i := range latencies {
			latencies[i] = 100 + r.IntN(100)
			if r.Float64() < tail*tail*tail {
				latencies[i] *= factor
			}
			sum += latencies[i]
		}
		truth := float64(sum) / float64(len(latencies))
		mean, median := corrected(latencies)
		if median > 2*truth+2 {
			t.Errorf("a median of %g beside a mean of %g", median, truth)
		}
		if mean < truth-1 {
			t.Errorf("corrected mean %g, true %g", mean, truth)
		}
		if mean <= 1.1*truth {
			continue
		}
		inflated++
		// 16 connections, never idle: the rate is 16 over the true mean.
		text := fmt.Sprintf("client_tool: wrk, client_workers: 4, connections: 16, pipelining: 1, rps: %f, latency_avg_ms: %f, p50_ms: %f",
			16e6/truth, mean/1e3, median/1e3)
		got := judgeOne(t, text)
		if got.Verdict.Outcome == record.Invalid || has(got.Inconsistencies, KindLittle) {
			t.Errorf("%s: %s %v", text, why(got.Verdict), got.Inconsistencies)
		}
		if v := judgeOne(t, strings.Replace(text, "wrk", "hey", 1)).Verdict; v.Outcome != record.Invalid {
			t.Errorf("the same from a tool that corrects nothing: %s", why(v))
		}
	}
	if inflated < 50 {
		t.Errorf("%d of 300 means were inflated: the test tests nothing", inflated)
	}
	// A real run of wrk 4.1 (wrk_threads.txt of show/importer/testdata/wrk.txtar), and one that cannot be.
	real := "client_tool: wrk, client_workers: 3, connections: 16, pipelining: 1, rps: 29842.13, latency_avg_ms: 1.73, p50_ms: 0.253, p90_ms: 5.48, p99_ms: 14.28"
	if v := judgeOne(t, real).Verdict; v.Outcome == record.Invalid || !strings.Contains(prose.Sentence(v.Caveats), "wrk adds latencies") {
		t.Errorf("a real run: %s, %v", why(v), v.Caveats)
	}
	if v := judgeOne(t, strings.Replace(real, "p50_ms: 0.253", "p50_ms: 2.53", 1)).Verdict; v.Outcome != record.Invalid {
		t.Errorf("a median that cannot be: %s", why(v))
	}
}

// TestPointsExpected holds the verdicts on the journal against what a careful
// reader concludes from it (testdata/expected.txt, which says from what).
func TestPointsExpected(t *testing.T) {
	f, err := os.Open("testdata/expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 3 {
			t.Fatalf("%q", line)
		}
		for id := range strings.FieldsSeq(cells[0]) {
			want[id] = strings.TrimSpace(cells[1])
		}
	}
	all := journal(t)
	if len(want) != len(all) {
		t.Errorf("%d points are expected, there are %d", len(want), len(all))
	}
	proven, named, own := 0, 0, 0
	for i, got := range Judge(all).Points {
		bottleneck := got.Verdict.Bottleneck
		switch w := want[all[i].ID]; {
		case w == "open" && bottleneck != record.Inconclusive:
			t.Errorf("point %s: %s, which nothing proves: %s", all[i].ID, bottleneck, why(got.Verdict))
		case w == "open":
		case w == "invalid":
			if bottleneck != record.Inconclusive || got.Verdict.Outcome != record.Invalid {
				t.Errorf("point %s: %s %s, want invalid", all[i].ID, got.Verdict.Outcome, bottleneck)
			}
		case bottleneck == record.Inconclusive:
			proven++
			t.Logf("point %s: %s is proven and not named: %s", all[i].ID, w, why(got.Verdict))
		case string(bottleneck) != w:
			t.Errorf("point %s: %s, want %s: %s", all[i].ID, bottleneck, w, why(got.Verdict))
		default:
			proven, named = proven+1, named+1
			if len(got.From) == 0 {
				own++
			}
		}
	}
	t.Logf("%d of %d ceilings that the data proves are named, %d of them by the point's own figures", named, proven, own)
	if named < 30 || own < 7 {
		t.Errorf("%d of %d are named, %d of them by their own figures; it was 30 and 7", named, proven, own)
	}
}
