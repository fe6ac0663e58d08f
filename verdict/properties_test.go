package verdict

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ceiling/experiment/spec"
	"ceiling/internal/needs"
	"ceiling/record"
)

func asText(t testing.TB, v record.Verdict) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatalf("the verdict cannot be written: %v", err)
	}
	return string(text)
}

// TestOrderOfRows: the verdict is a function of the rows and agents, not of
// their order.
func TestOrderOfRows(t *testing.T) {
	needs.Time(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		want := asText(t, Judge(run, series))
		for range 3 {
			r.Shuffle(len(series.Load), func(i, j int) { series.Load[i], series.Load[j] = series.Load[j], series.Load[i] })
			r.Shuffle(len(series.Agents), func(i, j int) { series.Agents[i], series.Agents[j] = series.Agents[j], series.Agents[i] })
			r.Shuffle(len(run.Agents), func(i, j int) { run.Agents[i], run.Agents[j] = run.Agents[j], run.Agents[i] })
			series.Observed = interleaved(r, &series.Observed)
			if got := asText(t, Judge(run, series)); got != want {
				t.Errorf("%s: another order of rows gives\n%s\nin place of\n%s", f.path, got, want)
				break
			}
		}
	}
}

// interleaved is the rows as several writers might have written them: moments in
// any order, the rows of one moment of a host as they were.
func interleaved(r *rand.Rand, rows *record.ObservedRows) record.ObservedRows {
	type moment struct {
		host         string
		tNs, widthNs int64
	}
	at := map[moment]int{}
	all := rows.All()
	for _, row := range all {
		h := row.Observed()
		if m := (moment{h.Host, h.TNs, h.WidthNs}); at[m] == 0 {
			at[m] = 1 + r.Int()
		}
	}
	of := func(row record.ObservedRow) int {
		h := row.Observed()
		return at[moment{h.Host, h.TNs, h.WidthNs}]
	}
	slices.SortStableFunc(all, func(a, b record.ObservedRow) int { return cmp.Compare(of(a), of(b)) })
	var mixed record.ObservedRows
	mixed.Add(all...)
	return mixed
}

// TestOtherRows: rows of another host, another interface, another time or a
// kind that no rule asks for change nothing.
func TestOtherRows(t *testing.T) {
	busy := []record.CoreTicks{{CPU: 0, User: 100}, {CPU: 1, User: 100}}
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		want := asText(t, Judge(run, series))
		head := func(kind, host string, tNs int64) record.ObservedHead {
			return record.ObservedHead{Kind: kind, Host: host, TNs: tNs, WidthNs: 1e9}
		}
		series.Observed.Add(
			&record.CPURow{ObservedHead: head(record.KindCPU, "elsewhere", 3e9), Cores: busy},
			&record.CPURow{ObservedHead: head(record.KindCPU, "h", 60e9), Cores: busy},
			&record.CPURow{ObservedHead: head(record.KindCPU, "h", -60e9), Cores: busy},
			&record.NetDevRow{ObservedHead: head(record.KindNetDev, "h", 3e9), Iface: "other0", RxBytes: 1e12, SpeedMbit: 10},
			&record.SocketsRow{ObservedHead: head(record.KindSockets, "elsewhere", 3e9), Client: record.EndQueues{Sockets: 64, Unread: 64}},
			&record.TCPRow{ObservedHead: head(record.KindTCP, "elsewhere", 3e9), ListenOverflows: 1e6},
			&record.ThrottleRow{ObservedHead: head(record.KindThrottle, "h", 3e9), Cgroup: "/somebody", Periods: 10, Throttled: 10, QuotaUs: 1,
				PeriodUs: 100},
			&record.PeersRow{ObservedHead: head(record.KindPeers, "elsewhere", 3e9),
				Peers: []record.Peer{{Addr: "10.0.0.5:5432", Sockets: 1, Awaiting: 1}}},
			&record.PSIRow{ObservedHead: head(record.KindPSI, "h", 3e9), CPUSomeNs: 9e8},
			&record.IRQRow{ObservedHead: head(record.KindIRQ, "h", 3e9)},
			&record.ProcessRow{ObservedHead: head(record.KindProcess, "h", 3e9), Role: "bystander", PID: 4711, CPUNs: 2e9},
		)
		if got := asText(t, Judge(run, series)); got != want {
			t.Errorf("%s: rows that are none of its business give\n%s\nin place of\n%s", f.path, got, want)
		}
	}
}

// forgetGenerator takes out all that is known of the generator.
func forgetGenerator(run *record.Run, series *record.Series) {
	run.Generator = record.Generator{RunDelay: -1}
	for i := range run.Agents {
		run.Agents[i].Generator = record.Generator{RunDelay: -1}
	}
	for i := range series.Agents {
		series.Agents[i].Busy = -1
	}
	for i := range series.Load {
		series.Load[i].Busy = -1
	}
	series.Observed.Processes = slices.DeleteFunc(series.Observed.Processes, func(p *record.ProcessRow) bool {
		return p.Role == record.RoleGenerator
	})
}

// TestNeverServerWithoutGenerator: whatever the server's side looks like, it is
// not the bottleneck while the generator's headroom is unknown.
func TestNeverServerWithoutGenerator(t *testing.T) {
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		forgetGenerator(run, series)
		if v := Judge(run, series); onServerSide(v.Bottleneck) {
			t.Errorf("%s: %s: %s", f.path, v.Bottleneck, v.Because)
		}
	}
}

// TestNeverServerWithFullGenerator: nor while the generator is full by itself.
func TestNeverServerWithFullGenerator(t *testing.T) {
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		run.Generator.BusiestWorker, run.Generator.RunDelay = .99, .005
		run.Generator.Workers = []record.Worker{{Busy: .99, RunDelay: .005}}
		if n := len(run.Agents); n > 0 { // one of several is enough
			full := &run.Agents[n/2]
			if !full.Loads {
				full = &run.Agents[0]
			}
			full.Generator = run.Generator
		}
		if v := Judge(run, series); serverOnly(v.Bottleneck) {
			t.Errorf("%s: %s: %s", f.path, v.Bottleneck, v.Because)
		}
	}
}

// TestJudgeChangesNothing: the record is the same afterwards.
func TestJudgeChangesNothing(t *testing.T) {
	needs.Time(t)
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		run2, series2 := f.read(t)
		Judge(run, series)
		if !reflect.DeepEqual(run, run2) || !reflect.DeepEqual(series, series2) {
			t.Errorf("%s: Judge has changed the record", f.path)
		}
	}
}

// checkWhole: outcome and bottleneck are of the known ones, shares are
// shares, and all of it can be written as JSON.
func checkWhole(t testing.TB, v record.Verdict) {
	t.Helper()
	asText(t, v)
	if !slices.Contains([]record.Outcome{record.Valid, record.Fail, record.Invalid}, v.Outcome) {
		t.Fatalf("outcome %q", v.Outcome)
	}
	known := []record.Bottleneck{record.LoadGenerator, record.ServerCPU, record.SharedCPU, record.ServerThread, record.ServerBlocked,
		record.Uneven, record.Bandwidth, record.Packets, record.AcceptQueue, record.Concurrency,
		record.TargetRate, record.Failures, record.Inconclusive}
	if !slices.Contains(known, v.Bottleneck) || len(v.Because) == 0 || len(v.Next) == 0 {
		t.Fatalf("bottleneck %q because %q, next %q", v.Bottleneck, v.Because, v.Next)
	}
	allSaid(t, v)
	sum := 0.0
	for _, s := range v.Stations {
		if !(s.Low >= 0 && s.Low <= s.Share+1e-9 && s.Share <= s.High+1e-9 && s.High <= 1) {
			t.Fatalf("station %+v", s)
		}
		sum += s.Share
	}
	if len(v.Stations) > 0 && (sum < .99 || sum > 1.01) {
		t.Fatalf("the stations add up to %v: %+v", sum, v.Stations)
	}
	if v.NextBottleneck != nil && !(v.NextBottleneck.Times >= 1) {
		t.Fatalf("next bottleneck %+v", v.NextBottleneck)
	}
}

func TestFixturesAreWhole(t *testing.T) {
	for _, f := range fixtures(t) {
		run, series := f.read(t)
		checkWhole(t, Judge(run, series))
	}
}

// anyRun draws a run of which any part may be nonsense.
func anyRun(t *rapid.T) *record.Run {
	run := closedRun()
	if rapid.Bool().Draw(t, "open") {
		run = openRun()
	}
	some := func(label string) bool { return rapid.Bool().Draw(t, label) }
	if some("load") {
		run.Load = rapid.Make[record.Load]().Draw(t, "load row")
	}
	if some("requests") {
		run.Requests = rapid.Make[record.Requests]().Draw(t, "requests row")
	}
	if some("balanced") {
		run.Requests.InFlight = run.Requests.Sent - run.Requests.Completed - run.Requests.Failed
	}
	if some("rate") {
		run.Rate = rapid.Make[record.Rate]().Draw(t, "rate row")
	}
	if some("bytes") {
		run.Bytes = rapid.Make[record.Bytes]().Draw(t, "bytes row")
	}
	if some("latency") {
		run.Latency = rapid.Make[record.Latency]().Draw(t, "latency row")
	}
	if some("generator") {
		run.Generator = rapid.Make[record.Generator]().Draw(t, "generator row")
	}
	if some("lone") {
		run.Unloaded = rapid.Ptr(rapid.Make[record.Unloaded](), true).Draw(t, "unloaded requests")
		run.FirstAnswers = rapid.SliceOfN(rapid.Make[record.Bin](), 0, 3).Draw(t, "first answers")
		run.Edges = rapid.Ptr(rapid.Make[record.Edges](), true).Draw(t, "edges")
	}
	if some("elapsed") {
		run.ElapsedS, run.WarmupS = rapid.Float64().Draw(t, "s"), rapid.Float64().Draw(t, "warm s")
	}
	if some("errors") {
		run.Errors = rapid.SliceOfN(rapid.Make[record.Error](), 0, 3).Draw(t, "error rows")
		run.Statuses = rapid.MapOfN(rapid.String(), rapid.Uint64(), 0, 3).Draw(t, "statuses")
	}
	if some("profiled") {
		run.Profiles = rapid.SliceOfN(rapid.Make[record.Profile](), 0, 3).Draw(t, "profiles")
		for i := range run.Profiles {
			run.Profiles[i].Kind = rapid.SampledFrom([]string{record.ProfileCPU, record.ProfileMutex, record.ProfileBlock, ""}).Draw(t,
				"kind of profile")
		}
	}
	run.Spec.Duration = time.Duration(rapid.Int64().Draw(t, "duration"))
	run.Spec.LinkBitsPerSecond = rapid.Float64().Draw(t, "link")
	run.Spec.PinServer = rapid.SampledFrom([]string{"", "0", "0-63", "7", "x"}).Draw(t, "pin")
	if some("slo") {
		run.Spec.SLO, _ = spec.ParseSLO("p99<5ms,p97<1ms,mean<1ms,service.max<2s,errors<1%,rate>10k")
	}
	if some("agents") {
		run.Agents = rapid.SliceOfN(rapid.Custom(anyAgent), 0, 4).Draw(t, "agent entries")
		run.Fleet = &record.Fleet{AllowLoss: some("allow loss")}
	}
	run.Environment.Host = rapid.SampledFrom([]string{"", "h"}).Draw(t, "home")
	return run
}

// anyAgent draws an agent of which any part may be nonsense.
func anyAgent(t *rapid.T) record.Agent {
	a := rapid.Make[record.Agent]().Draw(t, "agent")
	a.Name = rapid.SampledFrom([]string{"", "h", "other", "a"}).Draw(t, "name")
	a.Loads = rapid.IntRange(0, 3).Draw(t, "loads") > 0
	if rapid.Bool().Draw(t, "there") {
		a.Lost = ""
	}
	a.Environment.BootID = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "boot")
	return a
}

// anyRow draws an observed row of any kind, near the window more often than not.
func anyRow(t *rapid.T) record.ObservedRow {
	var row record.ObservedRow
	switch rapid.IntRange(0, 18).Draw(t, "kind") {
	case 0:
		row = ptr(rapid.Make[record.CPURow]().Draw(t, "cpu"))
	case 1:
		row = ptr(rapid.Make[record.SubjectRow]().Draw(t, "subject"))
	case 2:
		row = ptr(rapid.Make[record.ProcessRow]().Draw(t, "process"))
	case 3:
		row = ptr(rapid.Make[record.SocketsRow]().Draw(t, "sockets"))
	case 4:
		row = ptr(rapid.Make[record.ListenerRow]().Draw(t, "listener"))
	case 5:
		row = ptr(rapid.Make[record.TCPInfoRow]().Draw(t, "tcp info"))
	case 6:
		row = ptr(rapid.Make[record.TCPRow]().Draw(t, "tcp"))
	case 7:
		row = ptr(rapid.Make[record.NetDevRow]().Draw(t, "netdev"))
	case 8:
		row = ptr(rapid.Make[record.SoftnetRow]().Draw(t, "softnet"))
	case 9:
		row = ptr(rapid.Make[record.ThrottleRow]().Draw(t, "throttle"))
	case 10:
		row = ptr(rapid.Make[record.FreqRow]().Draw(t, "freq"))
	case 11:
		row = ptr(rapid.Make[record.ObserverRow]().Draw(t, "observer"))
	case 12:
		row = ptr(rapid.Make[record.PSIRow]().Draw(t, "psi"))
	case 13:
		row = ptr(rapid.Make[record.PeersRow]().Draw(t, "peers"))
	case 14:
		row = ptr(rapid.Make[record.NeighboursRow]().Draw(t, "neighbours"))
	case 15:
		row = ptr(rapid.Make[record.StatusRow]().Draw(t, "status"))
	case 16:
		row = ptr(rapid.Make[record.DatabaseRow]().Draw(t, "database"))
	case 17:
		row = ptr(rapid.Make[record.DiskRow]().Draw(t, "disk"))
	case 18:
		row = ptr(rapid.Make[record.TitlesRow]().Draw(t, "titles"))
	}
	if h := row.Observed(); rapid.IntRange(0, 4).Draw(t, "near") > 0 {
		h.TNs = rapid.Int64Range(-2e9, 12e9).Draw(t, "t")
		h.WidthNs = rapid.Int64Range(0, 2e9).Draw(t, "width")
		h.Host = rapid.SampledFrom([]string{"", "h", "other"}).Draw(t, "host")
	}
	if p, ok := row.(*record.ProcessRow); ok && rapid.Bool().Draw(t, "role") {
		p.Role = rapid.SampledFrom([]string{record.RoleSubject, record.RoleGenerator}).Draw(t, "role")
	}
	if s, ok := row.(*record.SubjectRow); ok {
		s.Role = rapid.SampledFrom([]string{record.RoleSubject, record.RoleGenerator}).Draw(t, "role")
		s.Event = rapid.SampledFrom([]string{record.SubjectFound, record.SubjectGone, ""}).Draw(t, "event")
	}
	return row
}

func ptr[T any](v T) *T { return &v }

// judgeAnything is that no record makes Judge panic, or answer less than a
// whole verdict, or name the server without the generator.
func judgeAnything(t *rapid.T) {
	run := anyRun(t)
	series := &record.Series{
		Load:   rapid.SliceOfN(rapid.Make[record.LoadRow](), 0, 8).Draw(t, "load rows"),
		Agents: rapid.SliceOfN(rapid.Make[record.LoadRow](), 0, 8).Draw(t, "agent rows"),
	}
	for _, row := range rapid.SliceOfN(rapid.Custom(anyRow), 0, 20).Draw(t, "rows") {
		row.Observed().Kind = "" // that of its type
		series.Observed.Add(row)
	}
	for i := range series.Agents {
		series.Agents[i].Host = rapid.SampledFrom([]string{"", "h", "other", "a"}).Draw(t, "agent")
	}
	v := Judge(run, series)
	if text, err := json.Marshal(v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if v.Outcome == "" || v.Bottleneck == "" || len(v.Because) == 0 || len(v.Next) == 0 {
		t.Fatalf("less than a verdict: %+v", v)
	}
	allSaid(t, v)
	if again := Judge(run, series); !reflect.DeepEqual(again, v) {
		t.Fatalf("judged twice: %+v\nand %+v", v, again)
	}
	forgetGenerator(run, series)
	if v := Judge(run, series); onServerSide(v.Bottleneck) {
		t.Fatalf("without the generator: %+v", v)
	}
}

func TestJudgeAnything(t *testing.T) { rapid.Check(t, judgeAnything) }

func FuzzJudge(f *testing.F) { f.Fuzz(rapid.MakeFuzz(judgeAnything)) }
