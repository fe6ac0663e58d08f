package verdict

import (
	"time"

	"ceiling/experiment/spec"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// watchedRun is a closed loop of 64 connections for 10 s with both ends on one
// host of two cores, and rows of all that rules ask for: what each test changes
// stands in the test.
type watchedRun struct {
	run    *record.Run
	series *record.Series
}

// watched makes one whose responses take meanNs each, of a server that uses so
// many cores in one thread for each core.
func watched(meanNs int64, cores float64) *watchedRun {
	w := &watchedRun{run: closedRun(), series: &record.Series{}}
	perS := 64e9 / float64(meanNs)
	n := uint64(perS * 10)
	r := w.run
	q := record.Quantiles{Count: n, MeanNs: float64(meanNs), P50Ns: meanNs, P90Ns: meanNs * 105 / 100, P99Ns: meanNs * 11 / 10,
		P999Ns: meanNs * 11 / 10, MinNs: meanNs * 9 / 10, MaxNs: meanNs * 12 / 10}
	r.Target = "http://127.0.0.1:8080/item"
	r.Spec.Targets = []spec.Target{{Method: "GET", URL: r.Target, Weight: 1}}
	r.Environment = record.Environment{Host: "h", CoresOnline: 2, CoresAllowed: 2}
	r.Requests = record.Requests{Sent: n + 64, InFlightAtStart: 64, Completed: n, InFlight: 64}
	r.Rate = record.Rate{CompletedPerS: perS, SentPerS: perS}
	r.Statuses = map[string]uint64{"200": n}
	r.Latency = record.Latency{Response: q, Service: q}
	r.Bytes = record.Bytes{Read: n * 130, Written: n * 60}
	r.Generator.BusiestWorker, r.Generator.RunDelay = .05, .01
	r.Generator.UserNs, r.Generator.SystemNs = 2e8, 3e8
	r.Generator.Workers = []record.Worker{{Thread: 9, Connections: 64, Completed: n, Busy: .05, RunDelay: .01}}
	w.found(record.RoleSubject, 100, "srv")
	w.found(record.RoleGenerator, 9, "ceiling")
	for s := range 10 {
		used := int64(cores * 1e9)
		w.row(s, time.Second, &record.ProcessRow{Role: record.RoleSubject, PID: 100, StartTicks: 1, Comm: "srv", CPUNs: used, RunNs: used,
			QueueNs: used / 50, Threads: 4, ThreadsRead: 4, RSSBytes: 50 << 20, OpenFiles: 80})
		busy := int64((cores + .05) * 50)
		core := func(cpu int) record.CoreTicks {
			return record.CoreTicks{CPU: cpu, User: busy / 2, System: busy - busy/2, Idle: 100 - busy}
		}
		w.row(s, time.Second, &record.CPURow{Cores: []record.CoreTicks{core(0), core(1)}})
		w.row(s, time.Second, &record.NetDevRow{Iface: "lo", Target: true, RxBytes: 1e6, RxPackets: 9e3, TxBytes: 1e6, TxPackets: 9e3,
			SpeedMbit: -1})
		w.row(s, time.Second, &record.TCPInfoRow{
			Client: record.EndTCPInfo{Sockets: 64, RTTp50Us: 40, RTTMinUs: 20, Matched: 64},
			Server: record.EndTCPInfo{Sockets: 64, RTTp50Us: 40, RTTMinUs: 20, Matched: 64, SentSegs: int64(2 * perS)},
		})
		for i := range 10 {
			w.series.Load = append(w.series.Load, record.LoadRow{Kind: record.KindLoad, Host: "h", TNs: int64(10*s+i+1) * 1e8, WidthNs: 1e8,
				Sent: uint64(perS / 10), Completed: uint64(perS / 10), Read: 130, Written: 60, InFlight: 64, Connected: 64,
				P50Ns: meanNs, P90Ns: meanNs, P99Ns: meanNs, MaxNs: meanNs, MinNs: meanNs, MeanNs: float64(meanNs), ServiceMeanNs: float64(meanNs),
				Busy: .05})
		}
	}
	for i := range 50 {
		row := &record.SocketsRow{Client: record.EndQueues{Sockets: 64}, Server: record.EndQueues{Sockets: 64}}
		row.ObservedHead = record.ObservedHead{Kind: record.KindSockets, Host: "h", TNs: int64(i+1) * 2e8}
		w.series.Observed.Add(row)
	}
	return w
}

func (w *watchedRun) found(role string, pid int, comm string) {
	row := &record.SubjectRow{Event: record.SubjectFound, Role: role, PID: pid, ParentPID: 1, StartTicks: 1, Comm: comm, CPUsAllowed: "0-1"}
	if role == record.RoleSubject {
		row.Listeners = []uint64{77}
	}
	row.ObservedHead = record.ObservedHead{Kind: record.KindSubject, Host: "h", TNs: -1e9}
	w.series.Observed.Add(row)
}

// row adds one that ends s+1 widths after the window opened.
func (w *watchedRun) row(s int, width time.Duration, row record.ObservedRow) {
	head := row.Observed()
	head.Host, head.WidthNs, head.TNs = "h", int64(width), int64(s+1)*int64(width)
	w.series.Observed.Add(row)
}

// each changes all rows of one kind.
func each[R record.ObservedRow](w *watchedRun, change func(R)) *watchedRun {
	for _, row := range w.series.Observed.All() {
		if r, is := row.(R); is {
			change(r)
		}
	}
	return w
}

func (w *watchedRun) judge() record.Verdict { return Judge(w.run, w.series) }

// sayings is all that a verdict says, a line each.
func sayings(v record.Verdict) string {
	text := string(v.Outcome) + "\n" + string(v.Bottleneck) + "\n" + prose.Sentence(v.Because) + "\n" + prose.Sentence(v.Next)
	for _, e := range v.Evidence {
		text += "\n" + prose.Text(e.Says)
	}
	for _, e := range v.Against {
		text += "\n" + prose.Text(e.Says)
	}
	for _, d := range v.Caveats {
		text += "\n" + prose.Text(d)
	}
	return text
}
