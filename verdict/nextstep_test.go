package verdict

import (
	"slices"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// slept is a server of Python in which requests sleep: most of its threads are in a sleep, some wait
// for the next request of a client.
func slept(stacks bool) *watchedRun {
	w := watched(50e6, .05)
	each(w, func(r *record.ProcessRow) {
		r.States = record.ThreadCount{Sleeping: 65}
		r.Waits = []record.WaitCount{{Wchan: "hrtimer_nanosleep", Threads: 61}, {Wchan: "wait_woken", Threads: 3}}
	})
	w.run.Unloaded = record.LoneOf([]int64{1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6}, 1) // so that they seem to queue
	w.run.Latency.ServiceBins = []record.Bin{{Ns: 50e6, Count: w.run.Latency.Service.Count}}
	w.run.Subject = &record.Subject{Host: "h", Processes: []record.SubjectProcess{{PID: 100, Comm: "python3", Exe: "/usr/bin/python3.11"}}}
	for s := range 5 {
		w.row(s, 1e9, &record.PeersRow{})
	}
	if stacks {
		w.run.Stacks = &record.Stacks{OffCPU: &record.OffCPUStacks{Bursts: 10, BurstNs: 500e6, Waits: []record.StackWait{
			{Reason: record.WaitSleep, Ns: 61 * 500e6, Times: 100, Distinct: 61},
			{Reason: record.WaitReceive, Object: "127.0.0.1:44444", Ns: 2.5 * 500e6, Times: 9, Distinct: 3}}}}
	}
	return w
}

// The strongest evidence decides the next step: where half of the threads that hold requests sleep,
// not the three that wait for a client; and the step names the command of the server's runtime.
func TestNextFollowsTheStrongestEvidence(t *testing.T) {
	for name, stacks := range map[string]bool{"by stacks": true, "by the kernel's functions": false} {
		v := slept(stacks).judge()
		next := prose.Sentence(v.Next)
		if !strings.Contains(next, "why its threads sleep") || !strings.Contains(next, ": ceiling profile -c 64") || strings.Contains(next, "service") {
			t.Errorf("%s: next %q\n%s", name, next, sayings(v))
		}
	}
	background := slept(true)
	background.run.Stacks.OffCPU.Waits[0].Ns, background.run.Stacks.OffCPU.Waits[0].Distinct = 2*500e6, 2
	background.run.Stacks.OffCPU.Waits[1].Ns = 60 * 500e6
	if next := prose.Sentence(background.judge().Next); !strings.Contains(next, "measure 127.0.0.1:44444") {
		t.Errorf("two threads of the background sleep: next %q", next)
	}
}

// After ceiling profile its finding is the step, without a name the command of the runtime.
func TestWaitToolOfARuntime(t *testing.T) {
	for exe, tool := range map[string]string{
		"/usr/bin/python3.11": "py-spy dump --pid 100", "/usr/bin/java": "jstack 100", "/usr/bin/node": "a pool or semaphore in its code",
		"/usr/bin/ruby3.1": "rbspy dump --pid 100", "/usr/sbin/php-fpm8.2": "phpspy -p 100", "/usr/bin/dotnet": "dotnet-stack report -p 100",
	} {
		w := slept(false)
		w.run.Subject.Processes[0].Exe, w.run.Profiling = exe, &record.Profiling{}
		if next := prose.Sentence(w.judge().Next); !strings.Contains(next, tool) {
			t.Errorf("%s: %q lacks %q", exe, next, tool)
		}
	}
	w := slept(false)
	w.run.Profiling = &record.Profiling{}
	w.run.Subject.Processes[0] = record.SubjectProcess{PID: 100, Exe: "/srv/app", BinaryID: "gnu:1"}
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "gdb -p 100") {
		t.Errorf("a native program: %q", next)
	}
	w.run.Subject.Processes[0].BinaryID = "go:1"
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "--pprof") {
		t.Errorf("a program in Go: %q", next)
	}
	w.run.Profiling.Profiles = []record.ProfileOf{{Kind: record.ProfileOffCPU, Total: 100,
		Functions: []record.ProfileFunction{{Name: "main.main.func1", File: "/src/main.go", Line: 6, Self: 76}}}}
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "main.main.func1 (main.go:6) has 76% of its off-CPU time") {
		t.Errorf("profiled: %q", next)
	}
	w.run.Profiling.Profiles[0].SeenNs = 100 * 100
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "a pool or semaphore in its code") {
		t.Errorf("profiled, and no thread waits: %q", next)
	}
	w.run.Profiling, w.run.Spec.Pprof = nil, "127.0.0.1:6060"
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, `ceiling profile`) || !strings.Contains(next, `import _ "net/http/pprof"`) {
		t.Errorf("after --pprof without an answer: %q", next)
	}
}

// An open loop beyond the capacity begins with what was answered of what was asked for.
func TestShortOfTheTarget(t *testing.T) {
	run := openRun()
	run.Load.TargetPerS, run.ElapsedS = 600, 10
	run.Rate.CompletedPerS, run.Rate.SentPerS = 488, 600
	run.Requests = record.Requests{Sent: 6000, Completed: 4880, InFlight: 1120, Due: 6000}
	if text := prose.Sentence(Judge(run, nil).Because); !strings.HasPrefix(text, "488 of 600 req/s answered") {
		t.Errorf("%q", text)
	}
	run.Rate.CompletedPerS, run.Requests.Completed, run.Requests.InFlight = 600, 6000, 0
	if text := prose.Sentence(Judge(run, nil).Because); strings.Contains(text, "answered; ") {
		t.Errorf("all was answered: %q", text)
	}
}

// Without the server's side the next step is to observe it, not to look for what it waits for.
func TestNextWithoutAServer(t *testing.T) {
	run := closedRun()
	run.Unloaded = record.LoneOf([]int64{1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5}, 1)
	short := *run
	short.ElapsedS = 0.001
	if next := prose.Sentence(Judge(&short, nil).Next); next != "run longer: ceiling run -d 10s -c 64" {
		t.Errorf("after 1 ms: next %q", next)
	}
	run.NotMeasured = []record.NotMeasured{{What: "host", Why: "hosts are observed only on Linux"}}
	if next := prose.Sentence(Judge(run, nil).Next); !strings.HasPrefix(next, "observe the server's processes: run ceiling on its host (Linux), as its user or as root, or run an agent there (--agents 1 --observe NAME)") {
		t.Errorf("next %q", next)
	}
}

// A run that its script ended has no window for Little's law; the caveat says who ended it.
func TestScriptThatStopped(t *testing.T) {
	run := closedRun()
	run.Latency.Response.MeanNs *= 3
	if v := Judge(run, nil); v.Outcome != record.Invalid {
		t.Fatalf("a law that is broken: %s", v.Outcome)
	}
	run.StoppedEarly = "the script stopped its threads"
	v := Judge(run, nil)
	if v.Outcome == record.Invalid || !strings.Contains(strings.Join(prose.Texts(v.Caveats), "\n"), "the script stopped its threads") {
		t.Errorf("%s: %q", v.Outcome, prose.Texts(v.Caveats))
	}
}

// A process whose threads are all stopped answers none of its connections, whatever the others do.
func TestStoppedProcess(t *testing.T) {
	w := slept(false)
	each(w, func(r *record.ProcessRow) { r.States = record.ThreadCount{Other: 65} })
	all := strings.Join(prose.Texts(w.judge().Caveats), "\n")
	if want := "process 100 of the server's 1 is stopped (state T): no connection that the kernel gives it is answered; kill -CONT 100"; !strings.Contains(all, want) {
		t.Errorf("%q lacks %q", all, want)
	}
	if all := strings.Join(prose.Texts(slept(false).judge().Caveats), "\n"); strings.Contains(all, "stopped (state T)") {
		t.Errorf("nothing is stopped: %q", all)
	}
}

// Connections that are opened for each request and wait in the accept queue are the loop's around accept(2).
func TestSlowAcceptLoop(t *testing.T) {
	run := closedRun()
	f := newFacts(run, nil)
	u := &f.cpu.server.unaccepted
	u.known, u.mean, u.of = true, 30, 32
	if f.cpu.server.acceptsSlowly() {
		t.Error("connections that stay open")
	}
	run.Load.Reconnects = run.Requests.Completed
	if !f.cpu.server.acceptsSlowly() {
		t.Error("30 of 32 connections wait, a new one for each request")
	}
	if u.mean = 3; f.cpu.server.acceptsSlowly() {
		t.Error("3 of 32 wait")
	}
}

// More concurrency does not help an SLO that one request alone misses; it does help one for a rate.
func TestSLOOfOneRequest(t *testing.T) {
	all := fixtures(t)
	lone := all[slices.IndexFunc(all, func(f fixture) bool { return strings.HasSuffix(f.path, "lone.json") })]
	for slo, want := range map[string]string{
		"":         "raise the concurrency: ceiling run -c 128 -d 10s",
		"p99<1ms":  "an unloaded request takes as long: find out where it spends its time: ceiling profile -c 64 -d 10s",
		"rate>10k": "raise the concurrency: ceiling run -c 128 -d 10s",
	} {
		run, series := lone.read(t)
		if slo != "" {
			run.Spec.SLO = mustSLO(t, slo)
		}
		v := Judge(run, series)
		if next := prose.Sentence(v.Next); next != want || !strings.HasSuffix(next, record.CommandIn(v.Next)) {
			t.Errorf("%s: next %q, of which %q", slo, next, record.CommandIn(v.Next))
		}
	}
}

// Between one and two at a time is a lock or one worker, and no pool that could be enlarged.
func TestOneOrTwo(t *testing.T) {
	f := newFacts(closedRun(), nil)
	f.lone.known, f.lone.is, f.lone.low, f.lone.at, f.lone.high = true, queued, 1.3, 1.5, 1.7
	if got := prose.Text(f.turns()); got != "effective concurrency 1 to 2 (a lock, or one worker)" {
		t.Error(got)
	}
	f.lone.low, f.lone.at, f.lone.high = 4.9, 5, 5.1
	if got := prose.Text(f.turns()); !strings.HasPrefix(got, "effective concurrency about 5 (a pool") {
		t.Error(got)
	}
}
