package verdict

import (
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// TestAgain: what is printed is what was typed, with one flag changed, and can be typed again: with the
// flags that its verb has, and as one run where the command makes several.
func TestAgain(t *testing.T) {
	rate, err := unit.ParseRate("10k")
	if err != nil {
		t.Fatal(err)
	}
	asked := spec.Spec{Condition: spec.Condition{Connections: 200, Pipelining: 4, Rate: rate}, Duration: 2 * time.Second,
		Targets: []spec.Target{{Method: "GET", URL: "http://h/read"}}}
	for _, c := range []struct {
		command, want string
		spec          spec.Spec
	}{
		{"/usr/bin/ceiling run http://127.0.0.1:8080/read", "ceiling run --separate-cpus http://127.0.0.1:8080/read", asked},
		{"ceiling run -c 1,4 -d 3s http://h/", "ceiling run --separate-cpus -c 1,4 -d 3s http://h/", asked},
		{"./ceiling run --pin-generator 0 --pin-server=0-1 -o dir --out=dir -c 9 http://h/", "ceiling run --separate-cpus -c 9 http://h/", asked},
		{"ceiling run --separate-cpus http://h/", "ceiling run --separate-cpus http://h/", asked},
		{"ceiling find --slo p99<5ms http://h/?a=1&b=2", "ceiling find --separate-cpus --slo 'p99<5ms' 'http://h/?a=1&b=2'", asked},
		{"ceiling run -b it's http://h/", `ceiling run --separate-cpus -b hidden http://h/`, asked},
		{"ceiling run -H Authorization:Bearer-x http://h/", "ceiling run --separate-cpus -H Authorization:hidden http://h/", asked},
		{"ceiling run http://me:pw@h/", "ceiling run --separate-cpus http://hidden@h/", asked},
		{"ceiling run -m IT'S http://h/", `ceiling run --separate-cpus -m 'IT'\''S' http://h/`, asked},
		{"ceiling demo", "ceiling run --separate-cpus -c 200 -p 4 -R 10k -d 2s http://h/read", asked},
		{"", "ceiling run --separate-cpus", spec.Spec{}},
	} {
		f := newParts(runFacts{run: &record.Run{Command: strings.Fields(c.command), Spec: c.spec}})
		if got := f.base.apartCommand(); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.command, got, c.want)
		}
	}
	for _, c := range []struct{ command, want string }{
		{"run -c 64 -d 1s -H A:b http://h/", "run -c 128 -d 1s -H A:b http://h/"},
		{"run --connections=64 http://h/ -o f", "run -c 128 http://h/"},
		{"run --connections 64 -c64 http://h/", "run -c 128 http://h/"},
		{"find -c 9 http://h/", "run -c 128 -p 4 -R 10k -d 2s http://h/read"},
		{"run -n 20 -c 4 http://h/", "run -d 10s -c 4 http://h/"},
		{"run --separate-cpus --pin-server 1 --quiet http://h/", "profile --separate-cpus --pin-server 1 http://h/"},
		{"run -c 16,64 http://h/", "profile -c 200 -p 4 -R 10k -d 2s http://h/read"},
		{"run sweep.yaml", "profile -c 200 -p 4 -R 10k -d 2s http://h/read"},
	} {
		f := newParts(runFacts{run: &record.Run{Command: strings.Fields("ceiling " + c.command), Spec: asked}})
		words := strings.Fields(c.want)
		flag := words[1:3]
		if words[0] == "profile" {
			flag = nil
		}
		if got := f.base.again(words[0], flag...); got != "ceiling "+c.want {
			t.Errorf("%s: %s\nwant %s", c.command, got, c.want)
		}
	}
}

// TestCrowded: a server that was moved to fewer CPUs than it has busy threads.
func TestCrowded(t *testing.T) {
	busy := func(n int) *facts {
		f := newParts(runFacts{run: &record.Run{Spec: spec.Spec{Settings: spec.Settings{PinServer: "1"}}}})
		f.cpu.server.subject.known = true
		for range n {
			f.cpu.server.subject.threads = append(f.cpu.server.subject.threads, threadUse{run: 0.2, queue: some(0.5)})
		}
		f.cpu.server.subject.threads = append(f.cpu.server.subject.threads, threadUse{run: 0.01, queue: some(0.02)})
		return f
	}
	if text := prose.Text(busy(1).cpu.server.crowded()); text != "" {
		t.Errorf("one busy thread on one CPU: %s", text)
	}
	if text := prose.Text(busy(4).cpu.server.crowded()); !strings.Contains(text, "4 threads of the server shared the 1 CPU") ||
		!strings.Contains(text, "taskset -c 1") {
		t.Errorf("four: %q", text)
	}
	free := busy(4)
	free.base.run.Spec.PinServer = ""
	if text := prose.Text(free.cpu.server.crowded()); text != "" {
		t.Errorf("a server that was not moved: %s", text)
	}
}

// onSharedCores is a run whose server and generator use so much of the two cores that both may use,
// and other processes the rest.
func onSharedCores(server, generator, others float64) *watchedRun {
	w := watched(1e6, server)
	each(w, func(r *record.ProcessRow) {
		r.QueueNs = int64(1e9)
		r.Busiest = []record.ThreadUse{{TID: 100, RunNs: r.CPUNs / 2, QueueNs: r.QueueNs / 2},
			{TID: 101, RunNs: r.CPUNs / 2, QueueNs: r.QueueNs / 2}}
	})
	each(w, func(r *record.CPURow) {
		for i := range r.Cores {
			busy := int64(50 * (server + generator + others))
			r.Cores[i] = record.CoreTicks{CPU: i, User: busy, Idle: 100 - busy}
		}
	})
	g := &w.run.Generator
	g.BusiestWorker, g.RunDelay = generator, .1
	g.UserNs, g.SystemNs = int64(generator*float64(5*time.Second)), int64(generator*float64(5*time.Second))
	g.Workers = []record.Worker{{Thread: 9, Connections: 64, Completed: 1, Busy: generator, RunDelay: .1}}
	return w
}

// A server that takes nearly all of the cores it shares with its generator is named, with what the
// generator's part of them costs; one that takes half of its cores beside other processes is not.
func TestSharesOfTheSameCores(t *testing.T) {
	for _, c := range []struct {
		name                      string
		server, generator, others float64
		is                        record.Bottleneck
		says                      string
	}{
		{"84 to 16", 1.68, .32, 0, record.ServerCPU, "up to 1.19× this rate on its own cores"},
		{"76 to 24", 1.52, .48, 0, record.ServerCPU, "up to 1.32× this rate on its own cores"},
		{"70 to 30", 1.40, .60, 0, record.SharedCPU, "(server 70% of their CPU time, generator 30%)"},
		{"97 to 3", 1.94, .06, 0, record.ServerCPU, "server process srv used 1.9 of 2 cores"},
		{"half of it others'", 1.0, .06, .94, record.SharedCPU, "other processes used 0.94 of 2 cores"},
	} {
		v := onSharedCores(c.server, c.generator, c.others).judge()
		if text := prose.Sentence(v.Because); v.Bottleneck != c.is || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s, lacks %q", c.name, sayings(v), c.says)
		}
		allSaid(t, v)
	}
}
