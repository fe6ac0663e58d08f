//go:build linux

package page

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/hist"
	"ceiling/record"
	"ceiling/record/recordtest"
	"ceiling/show/chart"
)

// sampleRun is a run made up: a closed loop of 64 connections against a server
// on two cores, seconds long, ten samples each second, of which the 25th came
// late. Everything in it is a function of the arguments.
func sampleRun(seconds, coreCount int) chart.Run {
	const width = int64(100 * time.Millisecond)
	r := &record.Run{
		Schema: record.Schema, ID: "20261121-093012-x7f2", Started: time.Date(2026, 11, 21, 9, 30, 12, 0, time.UTC),
		Command: []string{"ceiling", "run", "http://10.0.0.2:8080/read", "-c", "64", "-H", "Authorization: Bearer s3cret", "--slo", "p99<5ms"},
		Target:  "http://10.0.0.2:8080/read",
		Spec: spec.Spec{
			Targets: []spec.Target{{Method: "GET", URL: "http://10.0.0.2:8080/read", Weight: 1,
				Header: []spec.Field{{Name: "Authorization", Value: "Bearer s3cret"}, {Name: "Accept", Value: "application/json"}}}},
			Condition: spec.Condition{Connections: 64, Pipelining: 1}, Seed: 7,
			Duration: time.Duration(seconds) * time.Second, Warmup: time.Second, Timeout: 2 * time.Second,
			Settings: spec.Settings{Engine: "auto"},
		},
		Load: record.Load{Connections: 64, Opened: 64, Established: 64, Threads: 1, Pipelining: 1, Mode: "closed", Engine: "uring",
			EngineFeatures: []string{"SINGLE_ISSUER", "PBUF_RING"}},
		WarmupS: 1, ElapsedS: float64(seconds),
		Statuses: map[string]uint64{"200": 0, "503": 12},
		Errors: []record.Error{{Phase: "status", Cause: "503", Count: 12}, {Phase: "response", Cause: "timeout", Count: 3},
			{Phase: "connect", Cause: "ECONNREFUSED", Count: 1, BeforeWindow: true}},
		Environment: record.Environment{Host: "load1", Kernel: "6.18.4", Arch: "amd64", Version: "0.9.0", Go: "go1.26.8", CPUModel: "Example CPU",
			CoresOnline: coreCount, CoresAllowed: coreCount, MemoryBytes: 16e9, Sysctls: map[string]string{"net.core.somaxconn": "4096"},
			Limits: map[string]string{"nofile": "20000/20000"}, ClockSource: "tsc"},
		Subject: &record.Subject{Host: "web1", Address: "10.0.0.2:8080", CPUNsPerRequest: 9800,
			Processes: []record.SubjectProcess{{PID: 390, Comm: "shop", Exe: "/srv/shop", CPUNs: int64(seconds) * 1.6e9}}},
		NotMeasured: []record.NotMeasured{{What: "psi", Why: "this kernel keeps no /proc/pressure", Host: "web1"},
			{What: "sockets", Why: "the disk was full", TNs: 3e9, Part: true}},
		Generator: record.Generator{PID: 77, UserNs: int64(seconds) * 1e8, SystemNs: int64(seconds) * 3e8, CPUNsPerRequest: 4800,
			BusiestWorker: .41, RunDelay: .02, Headroom: 2.4, HeadroomBy: "calibrated on 2026-11-20 with 3 measurements of 1 s a point",
			Workers: []record.Worker{{Thread: 78, Connections: 64, Busy: .41, RunDelay: .02}}},
		Profiles: []record.Profile{{Kind: record.ProfileMutex, TotalNs: 12e9,
			Frames: []record.Frame{{Function: "shop/cart.(*Cart).Add", File: "cart.go", Line: 41, Through: "sync.(*Mutex).Lock", Ns: 9e9,
				Share: .75}}}},
	}
	slo, err := spec.ParseSLO("p99<5ms")
	if err != nil {
		panic(err)
	}
	r.Spec.SLO = slo
	series := &record.Series{}
	var response, service, lag hist.Hist
	t := -int64(time.Second)
	for i := 0; t < int64(seconds)*int64(time.Second); i++ {
		w := width
		if i == 25 {
			w *= 3
		}
		t += w
		sampleRow(series, r, i, t, w, coreCount)
		for n := range int64(20) {
			ns := 300_000 + 40_000*n + 200_000*int64(i%7) + 30_000_000*(n/19)*int64(i%53/52)
			response.Record(ns)
			service.Record(ns - 2_000 - n)
			lag.Record(2_000 + n)
		}
	}
	for _, row := range series.Load {
		if !row.Warmup {
			r.Requests.Completed += row.Completed
			r.Bytes.Read += row.Read
		}
	}
	r.Statuses["200"] = r.Requests.Completed - 12
	r.Requests.Failed, r.Requests.InFlight, r.Requests.InFlightAtStart = 3, 64, 64
	r.Requests.Sent = r.Requests.Completed + 3 + 64
	r.Generator.Workers[0].Completed = r.Requests.Completed
	r.Rate.CompletedPerS = float64(r.Requests.Completed) / float64(seconds)
	r.Rate.Spread = record.SpreadOf(series.Load)
	r.Latency = record.Latency{Response: record.QuantilesOf(&response), Service: record.QuantilesOf(&service), Lag: record.QuantilesOf(&lag)}
	r.Verdict = sampleVerdict()
	return chart.Run{Run: r, Series: series, Response: &response, Service: &service, Lag: &lag}
}

// sampleVerdict is written by hand, so that the page does not change with the
// rules of the judge.
func sampleVerdict() record.Verdict {
	return record.Verdict{
		Outcome: record.Fail, Bottleneck: "server CPU", Because: recordtest.Says("server CPU: shop used 1.60 of the server's 2 cores, and nothing was left"),
		Evidence: []record.Evidence{{What: "series.process.cpu_ns", Value: 1.6, Unit: "cores", Says: recordtest.Say("server process shop used 1.60 of 2 cores")},
			{What: "series.sockets.server.unread", Value: .75, Unit: "share", Says: recordtest.Say("75% of the requests were unread in the server's sockets")}},
		Against:        []record.Evidence{{What: "generator.run_delay", Value: .02, Unit: "share", Says: recordtest.Say("a worker waited for a CPU 2% of the time")}},
		Missing:        recordtest.Says("the clock of the CPUs"),
		Caveats:        recordtest.Says("one of 300 samples came late"),
		Next:           recordtest.Says("give it more cores, or less to do"),
		NextBottleneck: &record.NextBottleneck{Bottleneck: "bandwidth", Times: 2.7, Says: recordtest.Say("bandwidth, at about 2.7× this rate")},
		Stations: []record.Station{{Name: "generator", Share: .004, Low: .003, High: .005},
			{Name: "network to server", Share: .01, Low: .006, High: .014}, {Name: "server receive queue", Share: .75, Low: .71, High: .79},
			{Name: "server", Share: .18, Low: .15, High: .21}, {Name: "network to client", Share: .016, Low: .01, High: .022},
			{Name: "generator receive queue", Share: .04, Low: .02, High: .06}},
		Uses: []record.Use{record.NewUse(record.PlaceGenerator, record.UseOfThread, "", .41, 1),
			record.NewUse(record.PlaceToServer, record.UseOfLink, "eth0", 1.1e9, 25e9),
			record.NewUse(record.PlaceInServer, record.UseOfCores, "", 1.6, 2), record.NewUse(record.PlaceInServer, record.UseOfThread, "", .83, 1),
			record.NewUse(record.PlaceToClient, record.UseOfLink, "eth0", 9.2e9, 25e9)},
		Stalls: []record.Stall{{FromNs: 18e9, ToNs: 19_200_000_000}},
	}
}

// sampleSteps is how the response times of the i-th sample lie: most of them about 700 µs,
// some over ten times of that.
func sampleSteps(i int, done uint64) *record.Steps {
	var h hist.Hist
	for n := range done {
		ns := 200e3 * math.Exp2(3*math.Abs(math.Sin(float64(n)*1.7+float64(i))))
		if n%97 == 0 {
			ns *= 11
		}
		h.Record(int64(ns))
	}
	return record.StepsOf(&h)
}

// sampleRow adds one sample of everything.
func sampleRow(s *record.Series, r *record.Run, i int, t, w int64, coreCount int) {
	wave := 1 + .2*math.Sin(float64(i)/9)
	done := uint64(8160 * wave * float64(w) / 1e9 * 10 / 1)
	late := w > 150e6
	s.Load = append(s.Load, record.LoadRow{Kind: "load", Host: "load1", TNs: t, WidthNs: w, Late: late, Warmup: t <= 0, Sent: done,
		Completed: done, Failed: uint64(i % 90 / 89),
		Bad: uint64(i % 40 / 39), Read: done * 4400, Written: done * 45, InFlight: 64, Connected: 64, P50Ns: int64(680e3 * wave),
		P90Ns: int64(900e3 * wave),
		P99Ns: int64(1.9e6 * wave), MaxNs: int64(3e6*wave) + int64(i%53/52)*30e6, MinNs: 60e3, MeanNs: 720e3 * wave, ServiceMeanNs: 718e3 * wave,
		Busy: .41, Response: sampleSteps(i, done)})
	head := func(kind, host string) record.ObservedHead {
		return record.ObservedHead{Kind: kind, Host: host, TNs: t, WidthNs: w, Late: late}
	}
	ticks := w / 10e6
	for _, host := range []string{"load1", "web1"} {
		cpu := &record.CPURow{ObservedHead: head(record.KindCPU, host)}
		for c := range coreCount {
			user := (ticks*int64(3+(i+c)%5)/10 + 1) % (ticks + 1)
			soft := (ticks - user) / 4
			cpu.Cores = append(cpu.Cores, record.CoreTicks{CPU: c, User: user, SoftIRQ: soft, System: (ticks - user - soft) / 2,
				Idle: ticks - user - soft - (ticks-user-soft)/2})
		}
		if i == 40 {
			cpu.Cores[0].Bad = "idle went backwards"
		}
		s.Observed.Add(cpu, &record.NetDevRow{ObservedHead: head(record.KindNetDev, host), Iface: "eth0", Target: true,
			RxBytes: int64(done) * 4500, RxPackets: int64(done) * 4, TxBytes: int64(done) * 120, TxPackets: int64(done) * 2, SpeedMbit: 1000,
			QdiscUse: record.QdiscUse{Qdisc: "mq"}})
	}
	s.Observed.Add(
		&record.ProcessRow{ObservedHead: head(record.KindProcess, "web1"), Role: record.RoleSubject, PID: 390, StartTicks: 5, Comm: "shop",
			CPUNs: int64(1.6 * wave * float64(w)), UserNs: w, SystemNs: w / 2, RunNs: w, QueueNs: w / 20,
			Threads: 7, ThreadsRead: 7, Busiest: []record.ThreadUse{{TID: 391, Comm: "shop", RunNs: w * 9 / 10}},
			States: record.ThreadCount{Running: 2, Sleeping: 5}, Waits: []record.WaitCount{{Wchan: "futex_do_wait", Threads: 5}},
			Voluntary: 40, Involuntary: 9, SwitchesNs: w, RSSBytes: 31 << 20},
		&record.ProcessRow{ObservedHead: head(record.KindProcess, "load1"), Role: record.RoleGenerator, PID: 77, StartTicks: 4, Comm: "ceiling",
			CPUNs: w * 4 / 10, UserNs: w / 10, SystemNs: w * 3 / 10, QueueNs: -1, Threads: 9, Voluntary: -1, Involuntary: -1, RSSBytes: 22 << 20},
		&record.SocketsRow{ObservedHead: head(record.KindSockets, "web1"),
			Client: record.EndQueues{Sockets: 64, Unread: float64(2 + i%4), Unacked: 50},
			Server: record.EndQueues{Sockets: 64, Unread: float64(40 + i%17), Unacked: 6}},
		&record.TCPRow{ObservedHead: head(record.KindTCP, "web1"), OutSegs: int64(done), RetransSegs: int64(i % 30 / 29), ActiveOpens: -1},
		&record.TCPInfoRow{ObservedHead: head(record.KindTCPInfo, "web1"), Client: record.EndTCPInfo{Sockets: 64, RTTp50Us: 500},
			Server: record.EndTCPInfo{Sockets: 64, RTTp50Us: 40}},
		&record.PeersRow{ObservedHead: head(record.KindPeers, "web1"),
			Peers: []record.Peer{{Addr: "10.0.0.9:5432", Sockets: 6, Awaiting: 5, Unread: 0}}},
		&record.ListenerRow{ObservedHead: head(record.KindListener, "web1"),
			Listeners: []record.Listener{{Inode: 9, Addr: "10.0.0.2:8080", Queue: 0, Max: 4096}}},
		&record.SoftnetRow{ObservedHead: head(record.KindSoftnet, "web1"), CPUs: []record.SoftnetCPU{{CPU: 0, Processed: uint32(done)}}},
		&record.ObserverRow{ObservedHead: head(record.KindObserver, "web1"), CPUNs: w / 110, Samples: 1})
}

// filler writes the same text and plausible numbers into everything that
// reflection reaches.
type filler struct {
	text  string
	count int64
}

func (f *filler) fill(v reflect.Value, depth int) {
	if depth > 8 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text)
	case reflect.Int, reflect.Int64, reflect.Int32:
		f.count++
		v.SetInt(f.count % 97)
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint8:
		f.count++
		v.SetUint(uint64(f.count % 97))
	case reflect.Float64:
		f.count++
		v.SetFloat(float64(f.count%97) / 97)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth+1)
		f.fill(value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				f.fill(v.Field(i), depth+1)
			}
		}
	}
}

// filledRun is a run and a series with text in every field of every kind of
// row that a record has, by reflection: a field that is added later is in it.
func filledRun(text string) chart.Run {
	f := filler{text: text}
	r := new(record.Run)
	f.fill(reflect.ValueOf(r).Elem(), 0)
	r.Started, r.ElapsedS = time.Unix(0, 0), 10
	s := new(record.Series)
	for i := range int64(3) {
		row := record.LoadRow{}
		f.fill(reflect.ValueOf(&row).Elem(), 0)
		row.TNs, row.WidthNs, row.MaxNs = (i+1)*1e9, 1e9, 5e6
		s.Load = append(s.Load, row)
		row.Host = r.Agents[0].Name
		s.Agents = append(s.Agents, row)
		for _, kind := range kinds() {
			row, ok := record.NewObservedRow(kind)
			if !ok {
				panic(fmt.Sprintf("no row of kind %s", kind))
			}
			f.fill(reflect.ValueOf(row).Elem(), 0)
			head := row.Observed()
			head.Kind, head.TNs, head.WidthNs = kind, (i+1)*1e9, 1e9
			if dev, ok := row.(*record.NetDevRow); ok && i > 0 {
				dev.Bad = ""
			}
			if cpu, ok := row.(*record.CPURow); ok && i > 0 {
				for c := range cpu.Cores {
					cpu.Cores[c].Bad = ""
				}
			}
			s.Observed.Add(row)
		}
	}
	s.Problems, s.NotMeasured = []string{text}, []record.NotMeasured{{What: text, Why: text}}
	run := sampleRun(1, 1)
	return chart.Run{Run: r, Series: s, Response: run.Response, Service: run.Service, Lag: run.Lag}
}

func kinds() []string {
	return []string{record.KindCPU, record.KindSubject, record.KindProcess, record.KindSockets, record.KindListener, record.KindTCPInfo,
		record.KindTimes, record.KindPeers, record.KindTCP,
		record.KindNetDev, record.KindSoftnet, record.KindSoftirq, record.KindIRQ, record.KindNIC, record.KindPSI, record.KindThrottle,
		record.KindFreq,
		record.KindObserver}
}
