package verdict

import (
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
		if !strings.Contains(next, "why its threads sleep") || !strings.Contains(next, "py-spy dump --pid 100") || strings.Contains(next, "service") {
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

// Each runtime has its command.
func TestWaitToolOfARuntime(t *testing.T) {
	for exe, tool := range map[string]string{
		"/usr/bin/python3.11": "py-spy dump --pid 100", "/usr/bin/java": "jstack 100", "/usr/bin/node": "node --cpu-prof",
		"/usr/bin/ruby3.1": "rbspy dump --pid 100", "/usr/sbin/php-fpm8.2": "phpspy -p 100", "/usr/bin/dotnet": "dotnet-stack report -p 100",
	} {
		w := slept(false)
		w.run.Subject.Processes[0].Exe = exe
		if next := prose.Sentence(w.judge().Next); !strings.Contains(next, tool) {
			t.Errorf("%s: %q lacks %q", exe, next, tool)
		}
	}
	w := slept(false)
	w.run.Subject.Processes[0] = record.SubjectProcess{PID: 100, Exe: "/srv/app", BinaryID: "gnu:1"}
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "gdb -p 100") {
		t.Errorf("a native program: %q", next)
	}
	w.run.Subject.Processes[0].BinaryID = "go:1"
	if next := prose.Sentence(w.judge().Next); !strings.Contains(next, "--pprof") {
		t.Errorf("a program in Go: %q", next)
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
	run.NotMeasured = []record.NotMeasured{{What: "host", Why: "hosts are observed only on Linux"}}
	if next := prose.Sentence(Judge(run, nil).Next); !strings.HasPrefix(next, "observe the server's processes: run ceiling on its host (Linux), as its user or as root, or run an agent there (--agents 1 --observe NAME)") {
		t.Errorf("next %q", next)
	}
}
