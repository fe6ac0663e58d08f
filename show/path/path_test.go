package path

import (
	"math"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"ceiling/record"
)

// sample is a run of 1,000 requests/s for 10 s with a mean of 1.41 ms.
func sample() *record.Run {
	r := &record.Run{ElapsedS: 10, Verdict: record.Verdict{Bottleneck: record.ServerCPU}}
	r.Requests.Completed, r.Latency.Service.MeanNs = 10_000, 1.41e6
	for i, share := range []float64{.02, .001, .92, .01, .0002, .0488} {
		r.Verdict.Stations = append(r.Verdict.Stations,
			record.Station{Name: record.PlaceNames()[i], Share: share, Low: share * .9, High: share * 1.1})
	}
	r.Verdict.Uses = []record.Use{
		record.NewUse(record.PlaceGenerator, record.UseOfThread, "", .67, 1), record.NewUse(record.PlaceInServer, record.UseOfCores, "", 1, 2),
		record.NewUse(record.PlaceInServer, record.UseOfThread, "", .98, 1), record.NewUse(record.PlaceToServer, record.UseOfLink, "eth0", 4.1e9, 10e9),
		record.NewUse(record.PlaceToClient, record.UseOfLink, "lo", 2.9e9, 0),
	}
	return r
}

func text(p record.Path, width int, s Style) string {
	var b strings.Builder
	for _, line := range Lines(p, width, s) {
		b.WriteString(strings.TrimRight(line.Name+strings.Repeat(" ", 16-ansi.StringWidth(line.Name))+line.Text, " ") + "\n")
	}
	return b.String()
}

// The boxes are the same at every width: parts of the mean, shares, and a mark at the
// bottleneck that needs no colour.
func TestLines(t *testing.T) {
	for width, want := range map[int]string{
		120: `
                client     ▸network       ▸server queue ▸server*                     ▸network        ▸client queue
mean 1.41 ms    28.2 µs 2%  1.41 µs 0%     1.30 ms 92%   14.1 µs 1%                   282 ns 0%       68.8 µs 5%
* bottleneck    thread 67%  eth0 41% full  1.3 requests  1.00 of 2 cores, thread 98%  lo 2.90 Gbit/s  0.069 requests
`, 80: `
                client  ▸network ▸server queue ▸server* ▸network ▸client queue
mean 1.41 ms    28.2 µs  1.41 µs  1.30 ms       14.1 µs  282 ns   68.8 µs
* bottleneck    2%       0%       92%           1%       0%       5%
busy            67%      41%      1.3 req       98%               0.069 req
`, 60: `
                client     ▸network    ▸server queue
mean 1.41 ms    28.2 µs 2%  1.41 µs 0%  1.30 ms 92%
* bottleneck    server*    ▸network    ▸client queue
                14.1 µs 1%  282 ns 0%   68.8 µs 5%
`} {
		got := "\n" + text(sample().Path(), width-16, Style{})
		if got != want {
			t.Errorf("%d columns:%s", width, got)
		}
		for line := range strings.Lines(got) {
			if n := ansi.StringWidth(line); n > width {
				t.Errorf("%d columns on %d: %s", n, width, line)
			}
		}
	}
}

// Every width has every box, and nothing is wider than it may be.
func TestNoWidthLosesABox(t *testing.T) {
	p := sample().Path()
	p.Places[0].Known = false
	for width := 24; width < 140; width++ {
		got := text(p, width, Style{Mark: func(i int) string { return "░" }, Intervals: true})
		for _, want := range []string{"client", "network", "server queue", "server*", "client queue", "1.30 ms", "known"} {
			if !strings.Contains(got, want) {
				t.Fatalf("%d columns lack %q:\n%s", width, want, got)
			}
		}
		for line := range strings.Lines(got) {
			if n := ansi.StringWidth(line); n > width+16+1 {
				t.Fatalf("%d columns on %d: %s", n, width, line)
			}
		}
	}
}

// The figures are those of the record, by arithmetic that is done here again.
func TestPathOfRuns(t *testing.T) {
	a, b := sample(), sample()
	b.Requests.Completed, b.Latency.Service.MeanNs = 20_000, 3e6
	for i, share := range []float64{.1, .1, .2, .3, .1, .2} {
		b.Verdict.Stations[i] = record.Station{Name: record.PlaceNames()[i], Share: share, Low: share, High: share}
	}
	b.Verdict.Uses[0].Used = .33
	p := record.PathOf(a, b)
	mean := (10_000*1.41e6 + 20_000*3e6) / 30_000.
	queue := (10_000*1.41e6*.92 + 20_000*3e6*.2) / (10_000*1.41e6 + 20_000*3e6)
	at := p.Places[2]
	if near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*y }; !near(p.MeanNs, mean) || !near(at.Share, queue) ||
		at.Low != .2 || !near(at.High, .92*1.1) || !near(at.Requests, queue*mean/1e9*30_000/20) ||
		!near(p.Places[0].Uses[0].Used, .5) || p.Runs != 2 {
		t.Errorf("%+v, mean %g", at, p.MeanNs)
	}
	if !p.Places[3].Limits || at.Limits {
		t.Error("the bottleneck is at another place")
	}
	if b.Verdict.Bottleneck = record.LoadGenerator; Limiting(Boxes(record.PathOf(a, b))) {
		t.Error("two runs with different bottlenecks have one")
	}
	// Of a killed run the generator's batches are in no row, but kernel events see them.
	killed := sample()
	killed.Unfinished, killed.Verdict.StationsBy = true, record.BySocketSamples
	if p := killed.Path(); p.Places[0].Known || !p.Places[1].Known {
		t.Errorf("of a killed run: %+v", p.Places[:2])
	}
	if killed.Verdict.StationsBy = record.ByKernelEvents; !killed.Path().Places[0].Known {
		t.Error("kernel events are not believed")
	}
	// What an older record lacks in its verdict its result has.
	old := sample()
	old.Verdict.Uses = nil
	old.Generator.Workers, old.Generator.BusiestWorker = make([]record.Worker, 1), .25
	old.Subject = &record.Subject{Processes: []record.SubjectProcess{{CPUNs: 5e9}, {CPUNs: 10e9}}}
	boxes := Boxes(old.Path())
	if boxes[0].Use != "thread 25%" || boxes[3].Use != "1.50 cores" || boxes[1].Use != "" {
		t.Errorf("%+v", boxes)
	}
}
