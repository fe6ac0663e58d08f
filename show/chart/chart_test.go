package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/internal/hist"
	"ceiling/internal/unit"
	"ceiling/record"
)

// anyRows are rows that follow each other, with gaps here and there.
func anyRows(t *rapid.T) []row {
	n := rapid.IntRange(0, 300).Draw(t, "rows")
	at := rapid.Float64Range(-5, 5).Draw(t, "start")
	var rows []row
	for i := range n {
		if rapid.IntRange(0, 20).Draw(t, "gap") == 0 {
			at += rapid.Float64Range(1, 3).Draw(t, "pause")
		}
		width := rapid.Float64Range(.05, .4).Draw(t, "width")
		v := rapid.Float64Range(0, 1e6).Draw(t, "value")
		if i%17 == 16 {
			v = math.NaN()
		}
		rows = append(rows, row{at, at + width, width > .3, []float64{v, float64(i)}})
		at += width
	}
	return rows
}

// Thinning keeps every extreme and every late row, covers the same time, and
// makes no more points than asked for but one for each gap.
func TestThinKeepsWhatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		most := rapid.IntRange(1, 80).Draw(t, "most")
		kind := rapid.SampledFrom([]reduce{mean, middle}).Draw(t, "reduce")
		g := thin("x", slices.Clone(rows), []Line{{Name: "v", reduce: kind}, {Name: "i"}}, most)
		gaps, late := 0, 0
		low, high, area := math.Inf(1), math.Inf(-1), 0.0
		for i := range rows {
			if i > 0 && gap(&rows[i-1], &rows[i]) {
				gaps++
			}
			if rows[i].late {
				late++
			}
			if v := rows[i].values[0]; !math.IsNaN(v) {
				low, high = min(low, v), max(high, v)
			}
			area += rows[i].values[1] * (rows[i].to - rows[i].from)
		}
		if g.Rows != len(rows) || g.Points() > most+gaps || g.LateRows != late {
			t.Fatalf("%d points of %d rows (%d kept) for %d and %d gaps; %d late of %d", g.Points(), len(rows), g.Rows, most, gaps, g.LateRows, late)
		}
		if len(rows) <= most && g.Each != 1 {
			t.Fatalf("%d rows were thinned to %d points though %d were allowed", len(rows), g.Points(), most)
		}
		for i := range g.To {
			if !(g.To[i] > g.From[i]) || i > 0 && g.From[i] < g.To[i-1]-1e-9 {
				t.Fatalf("point %d covers %g to %g after %g", i, g.From[i], g.To[i], g.To[max(i-1, 0)])
			}
			if l := &g.Lines[0]; l.Low != nil && !math.IsNaN(l.Mid[i]) && (l.Mid[i] < l.Low[i] || l.Mid[i] > l.High[i]) {
				t.Fatalf("point %d: %g is not within %g to %g", i, l.Mid[i], l.Low[i], l.High[i])
			}
		}
		if low <= high {
			gotLow, gotHigh, _ := bounds([]Group{{Lines: g.Lines[:1]}})
			if gotLow != low || gotHigh != high {
				t.Fatalf("extremes %g to %g became %g to %g", low, high, gotLow, gotHigh)
			}
		}
		// A mean over time keeps what was counted.
		sum := 0.0
		widths := widthsOf(rows, &g)
		for i, v := range g.Lines[1].Mid {
			sum += v * widths[i]
		}
		if math.Abs(sum-area) > 1e-6*(1+area) {
			t.Fatalf("the area under the line was %g and is %g", area, sum)
		}
	})
}

// widthsOf is the time that the rows of each point cover: neighbours may be a
// little apart.
func widthsOf(rows []row, g *Group) []float64 {
	widths := make([]float64, g.Points())
	for _, r := range rows {
		i, _ := slices.BinarySearch(g.To, r.to)
		widths[i] += r.to - r.from
	}
	return widths
}

func TestAxes(t *testing.T) {
	check := func(a Axis, most int) {
		t.Helper()
		if len(a.Ticks) < 2 || len(a.Ticks) > most {
			t.Errorf("%s %g to %g: %d labels", a.Unit, a.Min, a.Max, len(a.Ticks))
		}
		seen := map[string]bool{}
		for i, tick := range a.Ticks {
			if tick.At < a.Min-1e-9*math.Abs(a.Min) || tick.At > a.Max*(1+1e-9)+1e-9 || i > 0 && tick.At <= a.Ticks[i-1].At || seen[tick.Label] ||
				tick.Label == "" {
				t.Errorf("%s %g to %g: label %q at %g", a.Unit, a.Min, a.Max, tick.Label, tick.At)
			}
			seen[tick.Label] = true
		}
	}
	for _, high := range []float64{.5, 1, 3, 7, 10, 64, 99, 100, 101, 12345, 1e6, 3.3e9, 9.99e11} {
		for _, of := range []string{PerSecond, BitPerSecond, Plain} {
			if a := fromZero("y", of, high); a.Max < high || a.Max > 2.5*high+ticksWanted {
				t.Errorf("axis up to %g for %g", a.Max, high)
			} else if high >= 10 || of == PerSecond { // fractions of a bit have no label of their own
				check(a, ticksWanted+2)
			}
		}
	}
	for _, r := range [][2]float64{{1, 1}, {700, 800}, {60e3, 14e6}, {1000, 1e6}, {1, 3.6e12}} {
		a := decades("y", Nanoseconds, r[0], r[1])
		check(a, 20)
		if a.Min > r[0] || a.Max < r[1] || a.Max < 10*a.Min {
			t.Errorf("decades %g to %g for %v", a.Min, a.Max, r)
		}
	}
	for _, r := range [][2]float64{{0, .002}, {-.5, .5}, {-1, 10}, {-1, 20}, {0, 59}, {0, 61}, {-1, 300}, {-1, 3600}, {0, 86400}, {-30, 9e5},
		{1e6, 1e6 + 10}} {
		check(timeAxis(r[0], r[1]), 12)
	}
	check(tailAxis(5), 10)
	check(tailAxis(1e9), 12)
	for _, a := range []Axis{timeAxis(5, 5), timeAxis(-1e300, 1e300), timeAxis(1e300, 1e300), fromZero("", Plain, math.Inf(1)),
		decades("", Nanoseconds, -1, -1)} {
		if len(a.Ticks) > 40 {
			t.Errorf("%d labels on %g to %g", len(a.Ticks), a.Min, a.Max)
		}
	}
	if got := timeAxis(-1, 20).Ticks; got[0] != (Tick{0, "0"}) || got[1] != (Tick{5, "5 s"}) {
		t.Errorf("labels of 20 s: %v", got)
	}
	if got := tailAxis(1e4).Ticks; fmt.Sprint(got) != "[{1 0%} {2 50%} {10 90%} {100 99%} {1000 99.9%} {10000 99.99%}]" {
		t.Errorf("HDR axis: %v", got)
	}
}

// The staircase is the quantile function: at 1/(1-q) it has the value of q, up
// to the columns that share a step, which show the larger.
func TestStaircaseIsTheQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h hist.Hist
		for range rapid.IntRange(1, 400).Draw(t, "n") {
			h.RecordN(rapid.Int64Range(1, 5e9).Draw(t, "ns"), uint64(rapid.IntRange(1, 5).Draw(t, "times")))
		}
		g := staircase("x", &h, h.Max(), 0, false)
		line := g.Lines[0].Mid
		if g.Points() > staircaseMost+60 || line[len(line)-1] != float64(h.Max()) {
			t.Fatalf("%d steps, the last at %g of %d", g.Points(), line[len(line)-1], h.Max())
		}
		for i := range line {
			if g.To[i] < g.From[i] || i > 0 && (g.From[i] != g.To[i-1] || line[i] < line[i-1]) {
				t.Fatalf("step %d: %g to %g at %g", i, g.From[i], g.To[i], line[i])
			}
		}
		q := rapid.Float64Range(0, .9999).Draw(t, "q")
		if x := 1 / (1 - q); x < g.To[len(g.To)-1] {
			i := slices.IndexFunc(g.To, func(to float64) bool { return to >= x })
			if got, want := line[i], float64(h.Quantile(q)); got < want*(1-1.0/256) {
				t.Fatalf("at %g the line has %g, the quantile is %g", q, got, want)
			}
			if i > 0 && g.Each == 1 && i+1 < len(line) && line[i-1] > float64(h.Quantile(q))*(1+1.0/256) {
				t.Fatalf("at %g the line is already at %g", q, line[i-1])
			}
		}
	})
}

// row10 is a load row of a tenth of a second that ends at a tenth.
func row10(tenth int64, completed uint64) record.LoadRow {
	return record.LoadRow{TNs: tenth * 1e8, WidthNs: 1e8, Completed: completed, P50Ns: 1e6, P99Ns: 2e6, MaxNs: 3e6}
}

func runOf(rows ...record.LoadRow) Run {
	return Run{Run: &record.Run{ElapsedS: 1}, Series: &record.Series{Load: rows}}
}

func TestRateCountsTrueWidths(t *testing.T) {
	late := row10(5, 3000)
	late.WidthNs, late.Late = 3e8, true
	run := runOf(row10(1, 1000), row10(2, 1000), late)
	p, ok := Rate([]Run{run}, Most)
	if !ok {
		t.Fatal("no plot")
	}
	g := p.Groups[0]
	if !slices.Equal(g.Lines[0].Mid, Values{10000, 10000, 10000}) || !slices.Equal(g.Late, []int{2}) || g.LateRows != 1 {
		t.Errorf("rates %v, late %v", g.Lines[0].Mid, g.Late)
	}
	html, err := p.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(html), `class="late"`) != 1 {
		t.Error("the late sample is not marked")
	}
	if _, ok := Rate([]Run{runOf()}, Most); ok {
		t.Error("a rate of nothing")
	}
	if _, ok := Rate([]Run{{Run: &record.Run{}}}, Most); ok {
		t.Error("a rate of a run without a series")
	}
}

func TestAskedRateIsALimit(t *testing.T) {
	run := runOf(row10(1, 1000))
	run.Load.TargetPerS = 20000
	p, _ := Rate([]Run{run, run}, Most)
	if len(p.Limits) != 1 || p.Limits[0].At != 20000 || p.Y.Max < 20000 {
		t.Errorf("limits %v on an axis up to %g", p.Limits, p.Y.Max)
	}
}

func TestARampIsDrawn(t *testing.T) {
	run := runOf(row10(-1, 50), row10(1, 100), row10(5, 300), row10(10, 900))
	rate, err := unit.ParseRate("1000:9000")
	if err != nil {
		t.Fatal(err)
	}
	run.Spec.Rate, run.Spec.Duration = rate, time.Second
	p, _ := Rate([]Run{run}, Most)
	if l := p.Groups[0].Lines; len(l) != 2 || len(p.Limits) != 0 || !math.IsNaN(l[1].Mid[0]) || math.Abs(l[1].Mid[1]-1400) > 1e-6 ||
		math.Abs(l[1].Mid[3]-8600) > 1e-6 {
		t.Errorf("%+v, limits %v", l, p.Limits)
	}
}

func TestLatencyHasGapsWhereNothingEnded(t *testing.T) {
	empty := record.LoadRow{TNs: 2e8, WidthNs: 1e8}
	p, ok := LatencyOverTime([]Run{runOf(row10(1, 5), empty, row10(3, 5))}, Most)
	if !ok || !math.IsNaN(p.Groups[0].Lines[0].Mid[1]) {
		t.Fatalf("%+v", p.Groups)
	}
	text, err := json.Marshal(p.Groups[0].Lines[0].Mid)
	if err != nil || string(text) != "[3000000,null,3000000]" {
		t.Errorf("%s, %v", text, err)
	}
	d, err := p.drawing()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(d.Strokes[0].Path, "M"); n != 2 || d.Strokes[0].Points != 2 {
		t.Errorf("a line of %d pieces and %d points: %s", n, d.Strokes[0].Points, d.Strokes[0].Path)
	}
}

func TestFailuresOnlyWhereThereAreSome(t *testing.T) {
	run := runOf(row10(1, 5))
	if _, ok := Failures(&run, Most); ok {
		t.Error("a picture of no failures")
	}
	run.Series.Load[0].Bad = 3
	if p, ok := Failures(&run, Most); !ok || p.Groups[0].Lines[1].Mid[0] != 30 {
		t.Errorf("%+v", p)
	}
}

// cpuRow is a sample of a host's cores.
func cpuRow(host string, tenth int64, cores ...record.CoreTicks) *record.CPURow {
	return &record.CPURow{ObservedHead: record.ObservedHead{Kind: record.KindCPU, Host: host, TNs: tenth * 1e8, WidthNs: 1e8}, Cores: cores}
}

func TestCores(t *testing.T) {
	run := runOf(row10(1, 5))
	run.Environment.Host = "b"
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(
		cpuRow("a", 1, record.CoreTicks{CPU: 0, User: 10}),
		cpuRow("b", -1, record.CoreTicks{CPU: 1, Steal: 10}), // before the window: drawn, in no mean
		cpuRow("b", 1, record.CoreTicks{CPU: 1, User: 4, SoftIRQ: 2, Idle: 4}, record.CoreTicks{CPU: 3, System: 10}),
		cpuRow("b", 2, record.CoreTicks{CPU: 1, User: 6, SoftIRQ: 2, Steal: 2}, record.CoreTicks{CPU: 3, Idle: -5, Bad: "idle went backwards"}),
	)
	if got := Hosts(&run); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("hosts %v: the generator's comes first", got)
	}
	c, ok := CoresOf(&run, "b")
	if !ok || c.Samples != 3 || c.Refused != 1 || len(c.PerCore) != 2 {
		t.Fatalf("%+v", c)
	}
	one := c.PerCore[0]
	if one.CPU != 1 || fmt.Sprint(one.Shares) != "[0.5 0 0 0 0.2 0.1 0 0.2]" || math.Abs(one.Busy()-.7) > 1e-12 {
		t.Errorf("core 1: %v, busy %g", one.Shares, one.Busy())
	}
	if busy := c.Heats[0]; busy.Name != "busy" || busy.Kind != Work || math.Abs(busy.Mean-.85) > 1e-12 || !busy.Missing() {
		t.Errorf("busy %+v", busy)
	}
	names := []string{"busy", "user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle"}
	for i, h := range c.Heats {
		if h.Name != names[i] || len(h.Cells) != h.Height*h.Columns || h.Height != 2 {
			t.Errorf("heat map %d: %s, %d cells", i, h.Name, len(h.Cells))
		}
		data, err := h.PNG()
		if err != nil {
			t.Fatal(err)
		}
		if img, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || img.Width != h.Columns || img.Height != 2 {
			t.Errorf("%s: %+v, %v", h.Name, img, err)
		}
	}
	if _, ok := CoresOf(&run, "nobody"); ok {
		t.Error("cores of a host that was not watched")
	}
}

// Each column of a heat map has shares that add up to one, however the samples
// lie to it.
func TestHeatColumnsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := runOf()
		run.ElapsedS = 100
		at := int64(0)
		for range rapid.IntRange(1, 600).Draw(t, "samples") {
			width := rapid.Int64Range(5e7, 4e8).Draw(t, "width")
			at += width
			r := cpuRow("h", 0, record.CoreTicks{User: rapid.Int64Range(0, 9).Draw(t, "user"), Idle: rapid.Int64Range(1, 9).Draw(t, "idle")})
			r.TNs, r.WidthNs = at, width
			run.Series.Observed.Add(r)
		}
		c, ok := CoresOf(&run, "h")
		if !ok {
			t.Fatal("nothing")
		}
		for col := range c.Heats[0].Columns {
			sum := 0.0
			for _, h := range c.Heats[1:] {
				sum += h.Cells[col]
			}
			if math.Abs(sum-1) > 1e-9 || math.Abs(c.Heats[0].Cells[col]-c.Heats[1].Cells[col]) > 1e-9 {
				t.Fatalf("column %d of %d adds up to %g", col, c.Heats[0].Columns, sum)
			}
		}
		if columns := c.Heats[0].Columns; columns > columnsMost {
			t.Fatalf("%d columns", columns)
		}
	})
}

func netRow(tenth int64, speed int64, shaped int64) *record.NetDevRow {
	return &record.NetDevRow{ObservedHead: record.ObservedHead{Kind: record.KindNetDev, Host: "h", TNs: tenth * 1e8, WidthNs: 1e8},
		Iface: "eth0", Target: true,
		RxBytes: 1e6, RxPackets: 1000, TxBytes: 1e5, TxPackets: 500, RxDrop: 2, SpeedMbit: speed,
		QdiscUse: record.QdiscUse{Qdisc: "tbf", QdiscRateBitsPerS: shaped,
			QdiscDrops: 1}}
}

func TestLinkAgainstItsLimit(t *testing.T) {
	run := runOf(row10(1, 5))
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(netRow(1, 100, 0), netRow(2, 100, 0), netRow(30, 100, 0)) // the last is after the window
	l := Links(&run, Most)[0]
	// 80 Mbit/s of payload and 24 bytes of framing for each of 10,000 packets/s.
	if got, want := l.Received.BitsPerS, 80e6+10000*24*8.0; math.Abs(got-want) > 1 {
		t.Errorf("received %g, want %g", got, want)
	}
	if l.Received.Limit.BitsPerS != 100e6 || !l.Received.Limit.Framed() || l.Received.PacketsPerS != 10000 ||
		l.Received.BytesPerPacket != 1000 || l.Dropped != 4 || l.QueueDropped != 2 {
		t.Errorf("%+v", l)
	}
	if len(l.Bits.Limits) != 1 || l.Bits.Y.Max < 100e6 {
		t.Errorf("the limit is not drawn: %v", l.Bits.Limits)
	}

	// A shaper limits what is sent, without framing; what a person says counts
	// before the kernel.
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(netRow(1, -1, 9e6))
	l = Links(&run, Most)[0]
	if l.Received.Limit.BitsPerS != 0 || l.Sent.Limit.BitsPerS != 9e6 || l.Sent.Limit.Framed() || l.Sent.BitsPerS != 8e6 {
		t.Errorf("%+v", l.Sent)
	}
	for shaped, want := range map[int64]float64{9e6: 9e6, 900e6: 100e6} { // the lower one of two
		run.Series.Observed = record.ObservedRows{}
		run.Series.Observed.Add(netRow(1, 100, shaped))
		if l := Links(&run, Most)[0]; l.Sent.Limit.BitsPerS != want || l.Received.Limit.BitsPerS != 100e6 {
			t.Errorf("shaped to %d of 100 Mbit/s: %+v", shaped, l)
		}
	}
	run.Spec.LinkBitsPerSecond = 1e12
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(netRow(1, 100, 0))
	l = Links(&run, Most)[0]
	if l.Received.Limit.BitsPerS != 1e12 || l.Received.Limit.Says() != "given (--link-speed)" || len(l.Bits.Limits) != 0 {
		t.Errorf("a limit far above is drawn, or not known: %+v, %v", l.Received, l.Bits.Limits)
	}

	bad := netRow(1, 100, 0)
	bad.Bad = "rx_bytes went backwards"
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(bad, netRow(2, 100, 0))
	if l = Links(&run, Most)[0]; l.Refused != 1 || l.Bits.Groups[0].Rows != 1 {
		t.Errorf("refused %d, drawn %d", l.Refused, l.Bits.Groups[0].Rows)
	}
}

func TestProcesses(t *testing.T) {
	run := runOf(row10(1, 5))
	row := func(role string, pid int, tenth, cpu int64) *record.ProcessRow {
		return &record.ProcessRow{ObservedHead: record.ObservedHead{Kind: record.KindProcess, TNs: tenth * 1e8, WidthNs: 1e8}, Role: role,
			PID: pid, StartTicks: 1, Comm: "c", CPUNs: cpu, QueueNs: -1,
			Busiest: []record.ThreadUse{{TID: 9, RunNs: cpu / 2}}, States: record.ThreadCount{Sleeping: 3},
			Waits: []record.WaitCount{{Wchan: "futex_do_wait", Threads: 2}, {Wchan: "ep_poll", Threads: 3}}, Voluntary: 5, Involuntary: -1,
			SwitchesNs: 1e8}
	}
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(row("generator", 1, 1, 9e7), row("subject", 2, 1, 2e7), row("subject", 3, 1, 8e7),
		row("subject", 3, 2, 6e7), row("subject", 3, 90, 1e8))
	list := Processes(&run)
	var order []int
	for _, p := range list {
		order = append(order, p.PID)
	}
	if !slices.Equal(order, []int{3, 2, 1}) {
		t.Fatalf("order %v", order)
	}
	p := list[0]
	if math.Abs(p.Cores-.7) > 1e-9 || !math.IsNaN(p.Queue) || math.Abs(p.Busiest-.35) > 1e-9 || p.Waits[0] != (Wait{"ep_poll", 3}) ||
		!math.IsNaN(p.Voluntary) {
		t.Errorf("%+v", p)
	}
	if len(p.Over.Values) != 3 || p.Over.Max != 1 || list[2].Over.Max != 1 {
		t.Errorf("sparks %v up to %g and %g", p.Over.Values, p.Over.Max, list[2].Over.Max)
	}
}

func TestCounters(t *testing.T) {
	run := runOf(row10(1, 5))
	tcp := func(tenth, resent int64) *record.TCPRow {
		return &record.TCPRow{ObservedHead: record.ObservedHead{TNs: tenth * 1e8, WidthNs: 1e8}, OutSegs: 1000, RetransSegs: resent,
			ListenOverflows: -1}
	}
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(tcp(1, 3), tcp(2, 4), tcp(-3, 99),
		&record.TCPInfoRow{Server: record.EndTCPInfo{Sockets: 2, RTTp50Us: 40}},
		&record.ObserverRow{ObservedHead: record.ObservedHead{WidthNs: 1e9}, CPUNs: 9e6},
		&record.PeersRow{Peers: []record.Peer{{Addr: "a", Sockets: 2, Awaiting: -1}, {Addr: "b", Sockets: 6, Awaiting: 3}}},
		&record.PeersRow{Peers: []record.Peer{{Addr: "b", Sockets: 4, Awaiting: 3}}})
	got := map[string]string{}
	for _, c := range TCPCounters(&run) {
		got[c.Name] = c.Text
	}
	if got["TCP retransmits"] != "7" || got["accept queue overflows"] != "not kept by this kernel" ||
		got["smoothed RTT, server side (median)"] != "40.0 µs" || len(got) != 7 {
		t.Errorf("%v", got)
	}
	if cost, ok := ObserverCost(&run); !ok || math.Abs(cost-.009) > 1e-12 {
		t.Errorf("observer %g", cost)
	}
	peers := Peers(&run)
	if len(peers) != 2 || peers[0].Addr != "b" || peers[0].Sockets != 5 || peers[0].Awaiting != 3 || peers[1].Sockets != 1 ||
		!math.IsNaN(peers[1].Awaiting) {
		t.Errorf("%+v", peers)
	}
}

func TestQueues(t *testing.T) {
	run := runOf(row10(1, 5))
	run.Series.Observed = record.ObservedRows{}
	run.Series.Observed.Add(
		&record.SocketsRow{ObservedHead: record.ObservedHead{TNs: 1e8, WidthNs: 1e8}, Client: record.EndQueues{Sockets: 8, Unread: 1},
			Server: record.EndQueues{Sockets: 8, Unread: 7}},
		&record.SocketsRow{ObservedHead: record.ObservedHead{TNs: 2e8, WidthNs: 1e8}, Client: record.EndQueues{Sockets: 8, Unread: 2}})
	p, ok := Queues(&run, Most)
	if l := p.Groups[0].Lines; !ok || l[0].Mid[0] != 7 || !math.IsNaN(l[0].Mid[1]) || l[1].Mid[1] != 2 || l[2].Mid[0] != 8 {
		t.Errorf("%+v", p.Groups)
	}
}

// What names a line is text, whatever it is.
func TestPicturesEscape(t *testing.T) {
	run := runOf(row10(1, 5))
	run.Label = `"><script>x</script>`
	p, _ := Rate([]Run{run, run}, Most)
	p.Title, p.X.Ticks[0].Label, p.Limits = run.Label, run.Label, []Limit{{run.Label, 5}}
	html, err := p.HTML()
	if err != nil || strings.Contains(string(html), "<script>") || !strings.Contains(string(html), "&lt;script&gt;") {
		t.Errorf("%s, %v", html, err)
	}
}

func TestEveryPointIsOneStepOfThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := anyRows(t)
		p := Plot{Groups: []Group{thin("", rows, []Line{{}, {}}, 50)}}
		_, high, ok := bounds(p.Groups)
		if !ok {
			return
		}
		p.axes(fromZero("", Plain, high))
		d, err := p.drawing()
		if err != nil {
			t.Fatal(err)
		}
		for l, s := range d.Strokes {
			want := 0
			for _, v := range p.Groups[0].Lines[l].Mid {
				if !math.IsNaN(v) {
					want++
				}
			}
			if got := strings.Count(s.Path, "H"); got != want || s.Points != want {
				t.Fatalf("line %d: %d steps, %d points, want %d", l, got, s.Points, want)
			}
		}
	})
}

func TestMostEachKeepsThePageSmall(t *testing.T) {
	for n := 1; n < 40; n++ {
		if each := MostEach(n); each*n > 2*Most+40*100 || each < 100 || n == 1 && each != Most {
			t.Errorf("%d runs: %d points each", n, each)
		}
	}
}

// What stands behind the server is drawn where somebody said it.
func TestBehind(t *testing.T) {
	r := Run{Run: &record.Run{ElapsedS: 10, Downstream: &record.Downstream{Slots: 4, WorkNs: 1e7}}, Series: &record.Series{}}
	if plots := Behind(&r, Most); len(plots) != 0 {
		t.Errorf("%d plots of nothing", len(plots))
	}
	for i := range 10 {
		head := record.ObservedHead{Host: "h", TNs: int64(i+1) * 1e9, WidthNs: 1e9}
		r.Series.Observed.Add(
			&record.DatabaseRow{ObservedHead: head, Active: 9, Waits: []record.SessionWait{{Type: "Lock", Event: "tuple", Sessions: 4},
				{Type: "LWLock", Event: "WALWrite", Sessions: 3}, {Type: record.OnCPU, Sessions: 2}}},
			&record.StatusRow{ObservedHead: head, Pool: record.PoolStatus{Size: 5, InUse: 5, WaitedNs: 12e9},
				Calls: record.CallStatus{Answered: 10, Calls: 300}})
	}
	plots := Behind(&r, Most)
	if len(plots) != 3 {
		t.Fatalf("%d plots", len(plots))
	}
	for i, want := range [][]float64{{2, 4, 3, 9}, {5, 12, 5}, {10, 300, 400}} {
		for k, v := range want {
			values := plots[i].Groups[0].Lines[k].Mid
			if n := len(values); n == 0 || fmt.Sprint(values[n/2]) != fmt.Sprint(v) {
				t.Errorf("%s, line %d: %v, want %v", plots[i].Title, k, values, v)
			}
		}
		if _, err := plots[i].HTML(); err != nil {
			t.Error(err)
		}
	}
}
