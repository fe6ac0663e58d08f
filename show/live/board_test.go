package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/chart"
	"ceiling/verdict"
)

// fixture is a run of three seconds against a fasthttp server, as it was
// recorded, and its rows until a time.
func fixture(t testing.TB, untilNs int64) (*record.Run, *record.Series) {
	t.Helper()
	r, s, err := record.Open(record.File{Path: "testdata/run.ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	part := recordtest.Until(&s, untilNs)
	return r, &part
}

func boardAt(t testing.TB, untilNs int64) (*Board, *record.Run, *record.Series) {
	r, s := fixture(t, untilNs)
	b := NewBoard()
	b.Began(record.Start{ID: r.ID, Created: r.Started, Command: r.Command, Spec: r.Spec})
	b.Rows(s)
	return b, r, s
}

func TestPhases(t *testing.T) {
	b := NewBoard()
	check := func(want Phase) {
		t.Helper()
		if got := b.Snapshot().Phase; got != want {
			t.Errorf("phase %d, want %d", got, want)
		}
	}
	check(Waiting)
	b.Began(record.Start{ID: "a", Spec: spec.Spec{Condition: spec.Condition{Connections: 8}}})
	check(Connecting)
	b.Connected(5, 8)
	if s := b.Snapshot(); s.Doing() != "connecting: 5 of 8 established" {
		t.Error(s.Doing())
	}
	b.Interval(record.LoadRow{TNs: -1, WidthNs: 1e8, Warmup: true}, nil, 0)
	check(WarmingUp)
	b.Interval(record.LoadRow{TNs: 1e8, WidthNs: 1e8}, nil, 0)
	check(Running)
	b.Measured(FinishedRun{})
	check(Between)
	b.RunEnded(&record.Run{})
	check(Ended)
	b.Began(record.Start{ID: "b"})
	check(Connecting)
	if s := b.Snapshot(); s.Last != nil || s.SoFar.Intervals != 0 || s.Formed != nil {
		t.Errorf("the run before is still there: %+v", s)
	}
}

// What the window adds up to is what the record's own reader adds up.
func TestSnapshotIsTheRowsSum(t *testing.T) {
	b, r, s := boardAt(t, math.MaxInt64)
	var completed, width, intervals uint64
	for i := range s.Load {
		if !s.Load[i].Warmup {
			completed += s.Load[i].Completed
			width += uint64(s.Load[i].WidthNs)
			intervals++
		}
	}
	got := b.Snapshot()
	if got.SoFar.Completed != completed || uint64(got.SoFar.Intervals) != intervals {
		t.Errorf("%d in %d intervals, want %d in %d", got.SoFar.Completed, got.SoFar.Intervals, completed, intervals)
	}
	if want := float64(completed) / float64(width) * 1e9; math.Abs(got.SoFar.PerS/want-1) > 1e-9 {
		t.Errorf("rate %v, want %v", got.SoFar.PerS, want)
	}
	if completed != r.Requests.Completed {
		t.Errorf("the rows have %d requests, the result %d: the fixture is broken", completed, r.Requests.Completed)
	}
	points, _ := b.Points(-1, 0)
	if len(points) != len(s.Load) {
		t.Errorf("%d points of %d rows", len(points), len(s.Load))
	}
	if got.SoFar.Response.Count != 0 {
		t.Error("the quantiles of a window are made up from those of its intervals")
	}
}

// The ends and the link are of the last second.
func TestEnds(t *testing.T) {
	b, r, s := boardAt(t, 2e9)
	got := b.Snapshot().Ends
	last := int64(0)
	for _, row := range s.Observed.All() {
		last = max(last, row.Observed().TNs)
	}
	for i := range s.Load {
		last = max(last, s.Load[i].TNs)
	}
	var cpu, width float64
	for _, row := range s.Observed.Processes {
		if row.Role == record.RoleSubject && row.TNs > last-1e9 {
			cpu, width = cpu+float64(row.CPUNs), width+float64(row.WidthNs)
		}
	}
	if !got.Server.Known || math.Abs(got.Server.Cores-cpu/width) > 1e-9 {
		t.Errorf("the server used %v cores, want %v", got.Server.Cores, cpu/width)
	}
	if len(got.Hosts) != 1 || got.Hosts[0].Name != r.Environment.Host || len(got.Hosts[0].Cores) != 2 {
		t.Fatalf("hosts %+v", got.Hosts)
	}
	for _, c := range got.Hosts[0].Cores {
		sum := 0.0
		for _, share := range c.Shares {
			sum += share
		}
		if math.Abs(sum-1) > 1e-9 || c.Bad {
			t.Errorf("CPU %d adds up to %v", c.CPU, sum)
		}
	}
	links := b.Snapshot().Links
	if len(links) != 1 || links[0].Iface != "lo" || links[0].Received.BitsPerS <= 0 || links[0].Received.Limit.From != "" {
		t.Errorf("links %+v", links)
	}
}

// A core whose rows do not add up has no shares.
func TestBadCore(t *testing.T) {
	b := NewBoard()
	b.Began(record.Start{})
	head := record.ObservedHead{Kind: record.KindCPU, Host: "h", TNs: 1e8, WidthNs: 1e8}
	b.Observed(&record.CPURow{ObservedHead: head,
		Cores: []record.CoreTicks{{CPU: 0, User: 4, Idle: 6}, {CPU: 1, User: 5, Bad: "it went back"}, {CPU: 2, User: -3, Idle: 13}}})
	cores := b.Snapshot().Ends.Hosts[0].Cores
	if cores[0].Bad || cores[0].Shares[0] != .4 || !cores[1].Bad || !cores[2].Bad {
		t.Errorf("%+v", cores)
	}
}

// A verdict over all that was recorded names what the run's own names.
func TestFormedIsTheRunsOwn(t *testing.T) {
	b, r, s := boardAt(t, math.MaxInt64)
	r.Verdict = verdict.Judge(r, s)
	if !b.Form() {
		t.Fatal("nothing was formed")
	}
	f := b.Snapshot().Formed
	if f.Final || f.Quantiles || f.ElapsedS < 2.8 || f.ElapsedS > 3.2 || len(r.Command) == 0 || !slices.Equal(f.Command, r.Command) {
		t.Errorf("%+v", f)
	}
	if f.Verdict.Bottleneck != r.Verdict.Bottleneck || f.Verdict.Outcome.Sound() != r.Verdict.Outcome.Sound() {
		t.Errorf("formed %s %s, the run's own is %s %s", f.Verdict.Outcome, f.Verdict.Bottleneck, r.Verdict.Outcome, r.Verdict.Bottleneck)
	}
	if len(f.Verdict.Stations) != len(r.Verdict.Stations) {
		t.Fatalf("stations %v", f.Verdict.Stations)
	}
	for i, st := range f.Verdict.Stations {
		// The time of a batch is in no row: that is the generator's own station.
		if want := r.Verdict.Stations[i]; st.Name != want.Name || math.Abs(st.Share-want.Share) > .02 {
			t.Errorf("%s %.3f, the run's own is %.3f", st.Name, st.Share, want.Share)
		}
	}
	if len(f.Verdict.SLO) != 0 {
		t.Error("an SLO is judged by quantiles that are not known")
	}
	b.RunEnded(r)
	if f := b.Snapshot().Formed; !f.Final || !reflect.DeepEqual(f.Verdict, r.Verdict) {
		t.Error("the end has another verdict than the run")
	}
	if b.Form() {
		t.Error("a run that is over is judged again")
	}
}

// Nothing is said of less than a second, nor of a warm-up.
func TestTooLittleToForm(t *testing.T) {
	for _, until := range []int64{-1, 5e8} {
		b, _, _ := boardAt(t, until)
		if b.Form() || b.Snapshot().Formed != nil {
			t.Errorf("a verdict at %d ns", until)
		}
	}
}

// repeated is the fixture's rows again and again: a long run.
func repeated(s *record.Series, times int) *record.Series {
	const each = 3e9
	var out record.Series
	for n := range times {
		for _, row := range s.Load {
			if row.Warmup && n > 0 {
				continue
			}
			row.TNs += int64(n) * each
			out.Load = append(out.Load, row)
		}
		observed := s.Observed
		after := int64(math.MinInt64)
		if n > 0 {
			after = -1
		}
		observed.Window(after, math.MaxInt64, -int64(n)*each-1)
		out.Observed.Add(observed.All()...)
	}
	return &out
}

// A long run is judged by its last 20 s, keeps no more rows than they have and
// a little, and comes to the same as a short one of the same rows.
func TestLongRun(t *testing.T) {
	r, s := fixture(t, 2999e6)
	b := NewBoard()
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	b.Rows(repeated(s, 40)) // two minutes
	if n := b.rows.observed.Len(); n > 2*s.Observed.Len()*15 {
		t.Errorf("%d rows are kept", n)
	}
	if !b.Form() {
		t.Fatal("nothing was formed")
	}
	f := b.Snapshot().Formed
	if math.Abs(f.ElapsedS-20) > .2 || f.Verdict.Bottleneck != r.Verdict.Bottleneck || len(f.Verdict.Stations) == 0 {
		t.Errorf("%s over %v s, stations %v", f.Verdict.Bottleneck, f.ElapsedS, f.Verdict.Stations)
	}
	for i, st := range f.Verdict.Stations {
		if math.Abs(st.Share-r.Verdict.Stations[i].Share) > .1 {
			t.Errorf("%s %.3f, want about %.3f", st.Name, st.Share, r.Verdict.Stations[i].Share)
		}
	}
}

// The distribution is exact where it is told, and then the SLO is judged.
func TestExactQuantiles(t *testing.T) {
	r, s := fixture(t, math.MaxInt64)
	b := NewBoard()
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	var all hist.Hist
	for i, row := range s.Load {
		var h hist.Hist
		for n := range 100 {
			h.Record(int64(1000 * (n + i)))
		}
		if !row.Warmup {
			all.Merge(&h)
		}
		b.Interval(row, &h, 500)
		h.Reset() // it is the caller's again
	}
	if diff := cmp.Diff(record.QuantilesOf(&all), b.Snapshot().SoFar.Response); diff != "" {
		t.Error(diff)
	}
	if !b.Form() {
		t.Fatal("nothing was formed")
	}
	if f := b.Snapshot().Formed; !f.Quantiles || len(f.Verdict.SLO) != len(r.Spec.SLO) {
		t.Errorf("the SLO is not judged: %+v", f.Verdict.SLO)
	}
}

// Feeding, judging and looking go on at once.
func TestConcurrent(t *testing.T) {
	r, s := fixture(t, math.MaxInt64)
	long := repeated(s, 20)
	b := NewBoard()
	b.Began(record.Start{ID: r.ID, Spec: r.Spec})
	var all sync.WaitGroup
	done := make(chan struct{})
	for _, look := range []func(){func() { b.Form() }, func() { b.Snapshot() }, func() { b.Points(0, 0) }} {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					look()
				}
			}
		})
	}
	b.Rows(long)
	close(done)
	all.Wait()
}

func TestLookersSeeNoSecrets(t *testing.T) {
	b := NewBoard()
	b.Began(record.Start{
		Command: []string{"ceiling", "run", "-H", "Authorization: s3cret1", "-b", "s3cret2", "http://h/x?token=s3cret3"},
		Spec: spec.Spec{Targets: []spec.Target{{Method: "POST", URL: "http://u:s3cret4@h/x?a=1&token=s3cret3", Body: []byte("s3cret2"),
			Header: []spec.Field{{Name: "Authorization", Value: "s3cret1"}}}}},
	})
	b.Step(Plan{Kind: "sweep", Doing: "http://h/x?token=s3cret3, 1 connection"})
	b.Measured(FinishedRun{Doing: "http://h/x?token=s3cret3, 1 connection"})
	s := b.Snapshot()
	text, err := json.Marshal(s)
	if err != nil || bytes.Contains(text, []byte("s3cret")) || bytes.Contains(text, []byte("czNjcmV0")) {
		t.Errorf("a secret is in %s, %v", text, err)
	}
	if s.Target != "http://hidden@h/x?a=1&token=hidden" {
		t.Errorf("target %s", s.Target)
	}
	if strings.Contains(fmt.Sprint(b.done, b.start), "s3cret") {
		t.Error("the board knows a secret")
	}
}

// TestReadersAgreeOnCores: the verdict, a page's table and the live view have one idle share of the same rows,
// with time that the kernel charged to nothing, rows that are missing and rows that do not add up.
func TestReadersAgreeOnCores(t *testing.T) {
	needs.Unraced(t)
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 1))
		run, series := fixture(t, 2e9)
		var rows []*record.CPURow
		for _, row := range series.Observed.CPU {
			if !run.InWindow(&row.ObservedHead) || chance.IntN(8) == 0 {
				continue
			}
			for i := range row.Cores {
				c := &row.Cores[i]
				*c = record.CoreTicks{CPU: c.CPU, User: chance.Int64N(5), Nice: chance.Int64N(2), System: 1 + chance.Int64N(5),
					SoftIRQ: chance.Int64N(3), Steal: chance.Int64N(2), IOWait: chance.Int64N(2), Idle: chance.Int64N(9), Missing: chance.Int64N(12)}
				if chance.IntN(16) == 0 {
					c.Bad = "it went back"
				}
			}
			rows = append(rows, row)
		}
		series.Observed.CPU = rows
		hosts := verdict.Judge(run, series).Hosts
		table, ok := chart.CoresOf(&chart.Run{Run: run, Series: series}, run.Environment.Host)
		screen := hostsOf(rows, run.Environment.Host)
		if len(hosts) != 2 || !ok || len(screen) != 1 || len(table.PerCore) != 2 { // server and generator have a CPU each
			t.Fatalf("%+v, %v, %+v", hosts, ok, screen)
		}
		judged := (hosts[0].Idle + hosts[1].Idle) / 2
		var onPage, onScreen float64
		for _, c := range table.PerCore {
			onPage += (c.Shares[record.CPUIdle] + c.Shares[record.CPUIOWait]) / float64(len(table.PerCore))
		}
		for _, c := range screen[0].Cores {
			onScreen += (c.Shares[4] + c.Shares[5]) / float64(len(screen[0].Cores))
		}
		mean := table.Heats[1+record.CPUIdle].Mean + table.Heats[1+record.CPUIOWait].Mean
		for name, got := range map[string]float64{"page": onPage, "its mean": mean, "screen": onScreen} {
			if math.Abs(got-judged) > 1e-9 {
				t.Errorf("seed %d: idle %g by the verdict, %g by the %s", seed, judged, got, name)
			}
		}
	}
}

// TestReadersAgreeOnLinks: so they have one rate, in the direction that it is sent, of rows with random
// figures, some missing and some that went backwards.
func TestReadersAgreeOnLinks(t *testing.T) {
	needs.Unraced(t)
	for seed := range uint64(50) {
		chance := rand.New(rand.NewPCG(seed, 2))
		run, series := fixture(t, 2e9)
		var all []*record.NetDevRow
		for _, row := range series.Observed.NetDevs {
			if !run.InWindow(&row.ObservedHead) || chance.IntN(4) == 0 {
				continue
			}
			row.Iface, row.RxBytes, row.TxBytes, row.RxPackets, row.TxPackets = "eth0", chance.Int64N(1e6), chance.Int64N(1e6), chance.Int64N(1e3), 1
			if chance.IntN(6) == 0 {
				row.Bad = "it went back"
			}
			all = append(all, row)
		}
		board := rows{latestNs: all[len(all)-1].TNs}
		board.observed.NetDevs = all
		screen := linksOf(&board, 0) // of the last second, which the others have alone
		series.Observed.NetDevs = slices.DeleteFunc(slices.Clone(all), func(r *record.NetDevRow) bool { return r.TNs <= board.latestNs-overNs })
		hosts, page := verdict.Judge(run, series).Hosts, chart.Links(&chart.Run{Run: run, Series: series}, chart.Most)
		if len(hosts) == 0 || len(page) != 1 || len(screen) != 1 {
			t.Fatalf("%+v, %+v, %+v", hosts, page, screen)
		}
		onPage, judged, onScreen := page[0].Sent.BitsPerS, 8*hosts[0].TxBytesPerS, screen[0].Sent.BitsPerS
		if math.Abs(onPage-judged) > 1e-9*onPage || math.Abs(onPage-onScreen) > 1e-9*onPage {
			t.Errorf("seed %d: %g bit/s on the page, %g by the verdict, %g on the screen", seed, onPage, judged, onScreen)
		}
	}
}
