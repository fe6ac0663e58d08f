package verdict

import (
	"math"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/verdict/prose"
)

// shortOf is a run of a new connection for each request in which a cause kept 40 % of the connects
// from being made, and the rows show no connection for half of the time.
func shortOf(cause string, short ...record.Shortage) (*record.Run, *record.Series) {
	run := closedRun()
	run.Target, run.Spec.NewConnections = "http://127.0.0.1:8080/x", 1
	run.Errors = []record.Error{{Phase: record.PhaseConnect, Cause: cause, Count: run.Requests.Completed * 2 / 3}}
	run.Generator.Shortages = short
	record.Blame(run.Errors, false, short)
	series := &record.Series{}
	for i := range 20 {
		row := record.LoadRow{Kind: record.KindLoad, TNs: int64(i+1) * 500e6, WidthNs: 500e6}
		if i < 10 {
			row.Completed, row.Connected = run.Requests.Completed/10, 64
		}
		series.Load = append(series.Load, row)
	}
	return run, series
}

// TestShortages: what this host ran out of makes the run invalid with the generator as the
// bottleneck, and nothing in the verdict blames the server.
func TestShortages(t *testing.T) {
	ports := record.Shortage{Phase: "connect", Cause: "EADDRNOTAVAIL", Of: record.ShortPorts, To: "127.0.0.1:8080", Limit: 100, Low: 40000, High: 40099,
		Sources: 1, TimeWait: 100, Setting: "net.ipv4.ip_local_port_range"}
	some, agent, wide := ports, ports, ports
	some.TimeWait, agent.Host = 40, "load1"
	wide.Low, wide.High, wide.Limit, wide.Reuse, wide.Sources = 1024, 65535, 2*64512, true, 2
	of := func(cause, of string) record.Shortage {
		return record.Shortage{Phase: "connect", Cause: cause, Of: of, To: "10.0.0.1:80", Used: 100, Limit: 100, Setting: "SETTING"}
	}
	for name, c := range map[string]struct {
		cause         string
		short         []record.Shortage
		because, next string
	}{
		"ports": {"EADDRNOTAVAIL", []record.Shortage{ports}, "this host ran out of local ports: 100 local ports to one address " +
			"(net.ipv4.ip_local_port_range = 40000 40099), all in TIME_WAIT; 40% of connection attempts failed (connect: EADDRNOTAVAIL × ",
			`(sysctl -w net.ipv4.ip_local_port_range="1024 65535"), reuse ports in TIME_WAIT (sysctl -w net.ipv4.tcp_tw_reuse=1), or spread the ` +
				`connections over more local addresses (--source-ips)`},
		"some ports":  {"EADDRNOTAVAIL", []record.Shortage{some}, "40099), 40 of them in TIME_WAIT;", "ip_local_port_range"},
		"all ports":   {"EADDRNOTAVAIL", []record.Shortage{wide}, "129,024 local ports to one address from 2 addresses", "spread the connections over"},
		"agent":       {"EADDRNOTAVAIL", []record.Shortage{agent}, "agent load1's host ran out of local ports", "--source-ips"},
		"not known":   {"EADDRNOTAVAIL", nil, "this host caused errors itself; 40% of connection attempts failed", "strace"},
		"files":       {"EMFILE", []record.Shortage{of("EMFILE", record.ShortFiles)}, "all the files open that it may: 100 (SETTING)", "ulimit -n"},
		"host files":  {"ENFILE", []record.Shortage{of("ENFILE", record.ShortHostFiles)}, "100 of 100 (SETTING)", "fs.file-max"},
		"memory":      {"ENOMEM", []record.Shortage{of("ENOMEM", record.ShortMemory)}, "ran out of memory", "memory.max"},
		"buffers":     {"ENOBUFS", []record.Shortage{of("ENOBUFS", record.ShortBuffers)}, "ran out of buffers", "txqueuelen"},
		"conntrack":   {"timeout", []record.Shortage{of("timeout", record.ShortConntrack)}, "is full and drops new connections: 100 of 100", "nf_conntrack_max"},
		"permission":  {"EPERM", []record.Shortage{of("EPERM", record.ShortPermission)}, "forbids the generator to connect (EPERM)", "seccomp"},
		"route":       {"ENETUNREACH", []record.Shortage{of("ENETUNREACH", record.ShortRoute)}, "this host has no route to 10.0.0.1:80 (ENETUNREACH)", "ip route get"},
		"family":      {"EAFNOSUPPORT", []record.Shortage{of("EAFNOSUPPORT", record.ShortFamily)}, "IPv6 may be off", "disable_ipv6=0"},
		"interface":   {"ENETDOWN", []record.Shortage{of("ENETDOWN", record.ShortInterface)}, "interface of this host is down", "ip link set"},
		"source":      {"EADDRNOTAVAIL", []record.Shortage{of("EADDRNOTAVAIL", record.ShortSource)}, "10.0.0.1:80 is not an address of this host", "ip addr add"},
		"socket file": {"EACCES", []record.Shortage{of("EACCES", record.ShortSocketFile)}, "may not write to the socket", "ls -l"},
		"other":       {"EIO", []record.Shortage{of("EIO", record.ShortOther)}, "refused with EIO", "dmesg"},
	} {
		run, series := shortOf(c.cause, c.short...)
		v := Judge(run, series)
		because, next := prose.Sentence(v.Because), prose.Sentence(v.Next)
		if v.Outcome != record.Invalid || v.Bottleneck != record.LoadGenerator ||
			!strings.Contains(because, c.because) || !strings.Contains(next, c.next) {
			t.Errorf("%s: %s, %s: %s; next: %s; want %q, %q", name, v.Outcome, v.Bottleneck, because, next, c.because, c.next)
		}
		all := strings.Join(append(prose.Texts(v.Caveats), because, next), "\n")
		for _, e := range v.Evidence {
			all += "\n" + prose.Text(e.Says)
		}
		for _, blames := range []string{"unreachable", "server log", "requests failed", "another bottleneck"} {
			if strings.Contains(all, blames) {
				t.Errorf("%s: says %q:\n%s", name, blames, all)
			}
		}
	}
}

// TestServersErrors: the same run with errors of the server or of the path stays its own.
func TestServersErrors(t *testing.T) {
	for _, cause := range []string{"ECONNREFUSED", "ECONNRESET", "timeout", "EHOSTUNREACH", "ENETUNREACH"} {
		v := Judge(shortOf(cause))
		if v.Outcome != record.Fail || v.Bottleneck != record.Failures || !strings.Contains(prose.Sentence(v.Because), "40% of connection attempts failed") {
			t.Errorf("%s: %s, %s: %s", cause, v.Outcome, v.Bottleneck, prose.Sentence(v.Because))
		}
		if !strings.Contains(prose.Sentence(v.Because)+prose.Texts(v.Caveats)[0], "the server was unreachable for") {
			t.Errorf("%s: the outage is not said: %s", cause, prose.Texts(v.Caveats))
		}
	}
}

// TestConnectionsMissing: connections that this host could not open, at the start or again, make
// the load another one.
func TestConnectionsMissing(t *testing.T) {
	short := record.Shortage{Phase: "connect", Cause: "EMFILE", Of: record.ShortFiles, Limit: 60, Setting: "RLIMIT_NOFILE"}
	for name, change := range map[string]func(*record.Run){
		"at the start": func(r *record.Run) {
			r.Load.Established = 32
			r.Errors = []record.Error{{Phase: "connect", Cause: "EMFILE", Count: 32, BeforeWindow: true}}
		},
		"again": func(r *record.Run) { r.Errors = []record.Error{{Phase: "connect", Cause: "EMFILE", Count: 32}} },
	} {
		run, series := shortOf("EMFILE", short)
		run.Spec.NewConnections = 0
		run.Load.Connections = 64
		change(run)
		record.Blame(run.Errors, false, run.Generator.Shortages)
		for i := range series.Load {
			series.Load[i].Completed, series.Load[i].Connected = run.Requests.Completed/20, 32
		}
		v := Judge(run, series)
		if v.Outcome != record.Invalid || v.Bottleneck != record.LoadGenerator ||
			!strings.Contains(prose.Sentence(v.Because), "files open that it may: 60 (RLIMIT_NOFILE); 32 of 64 connections were not established") {
			t.Errorf("%s: %s, %s: %s", name, v.Outcome, v.Bottleneck, prose.Sentence(v.Because))
		}
	}
	run, series := shortOf("EMFILE", short)
	run.Errors = []record.Error{{Phase: "connect", Cause: "EMFILE", Count: 1, BeforeWindow: true}}
	if v := Judge(run, series); v.Bottleneck == record.LoadGenerator {
		t.Errorf("an error that was made up for before the window: %s: %s", v.Outcome, prose.Sentence(v.Because))
	}
}

// With a connection for each request, a load that stands still for want of files has few errors: each
// connection is tried again later and later. The rows in which nothing was answered tell.
func TestLoadStoodStill(t *testing.T) {
	for still, want := range map[int]float64{0: 0, 6: 4.8} {
		r := closedRun()
		r.Spec.NewConnections, r.Load.Connections = 1, 8
		var rows []record.LoadRow
		for i := range 10 {
			row := record.LoadRow{Completed: 500, Connected: 3}
			if i >= 10-still {
				row = record.LoadRow{}
			}
			rows = append(rows, row)
		}
		l := localFacts{connects: 32, share: .005, kinds: []errorKind{{name: "EMFILE", connect: true, count: 32}}}
		if l.lackConnections(r, rows); math.Abs(l.missing-want) > 1e-9 || l.matters(r) != (still > 0) {
			t.Errorf("%d of 10 rows without an answer: %v connections missing, want %v; matters %v", still, l.missing, want, l.matters(r))
		}
	}
}
