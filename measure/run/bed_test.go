//go:build linux

package run

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/measure/netns"
	"ceiling/measure/tune"
	"ceiling/record"
)

// steered is an experiment of packet steering over a veth pair of two queues. Its server
// writes down the mask that it finds.
func steered(t *testing.T, note string) spec.Experiment {
	t.Helper()
	e := spec.Experiment{
		Kind: spec.KindFactorial,
		Servers: []spec.Server{{Name: "s", Serve: "cat /sys/class/net/eth0/queues/rx-1/rps_cpus >>" + note + "; exec '" + os.Args[0] + "'",
			Env: []string{"RUN_TEST_SLEEP=1ms"}}},
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{Path: "/"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{2}},
			Duration: spec.Time(50 * time.Millisecond), Warmup: new(spec.Time(10 * time.Millisecond)),
			Settings: spec.Settings{NoLone: true}},
		Link: spec.Link{Queues: 2},
		Factorial: spec.Factorial{Factors: []spec.Factor{
			{Name: "RPS", Levels: []spec.Level{{Name: "off"}, {Name: "on", Tune: []string{"rps_cpus=0"}}}},
		}},
		Repeats: 3,
	}
	e.Complete(1)
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTuningIsInForceDuringItsRuns: of the cell that asks for it, and of no other; the
// namespace is gone behind the last.
func TestTuningIsInForceDuringItsRuns(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	note := filepath.Join(dir, "masks")
	p, _, err := Explore(t.Context(), steered(t, note), Options{Out: filepath.Join(dir, "plan")}, nil)
	if err != nil || p.Ended != record.EndedComplete || len(p.Runs) != 7 {
		t.Fatalf("%v: %s (%s), %d runs", err, p.Ended, p.Because, len(p.Runs))
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	masks := strings.Fields(string(text))
	for i, m := range p.Runs {
		want := []string{"0", "1"}[m.Cell[0]]
		if len(masks) != len(p.Runs) || strings.TrimLeft(masks[i], "0") != strings.TrimLeft(want, "0") {
			t.Errorf("run %d, RPS %s: the server found the masks %v", i+1, want, masks)
		}
		tuned := fmt.Sprint(m.Tuned)
		if on := strings.Contains(tuned, "eth0 rx-1 rps_cpus 0 1 "); on != (want == "1") || m.Run == "" || on && m.Tuned[0].Effect != "" {
			t.Errorf("run %d: tuned %s, %d completed", i+1, tuned, m.Completed)
		}
	}
	if _, err := os.Stat(filepath.Join("/run/netns", netns.Name(bedNumber))); err == nil {
		t.Error("the namespace is left")
	}
}

// A run has the link of its cell, and a proof lowers the rate of that of its experiment.
func TestLinkIsInForceDuringItsRuns(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	note := filepath.Join(dir, "rates")
	e := steered(t, note)
	e.Servers[0].Serve = "tc qdisc show dev eth0 | sed -n 's/.*rate \\([^ ]*\\).*/\\1/p' >>" + note + "; exec '" + os.Args[0] + "'"
	e.Link.Rate = "30Mbit/s"
	e.Factorial.Factors = []spec.Factor{{Name: "link", Levels: []spec.Level{{Name: "as it is"}, {Link: spec.Link{Rate: "10Mbit/s"}}}}}
	p, _, err := Explore(t.Context(), e, Options{Out: filepath.Join(dir, "plan")}, nil)
	if err != nil || p.Ended != record.EndedComplete {
		t.Fatalf("%v: %s (%s), %d runs", err, p.Ended, p.Because, len(p.Runs))
	}
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	rates := strings.Fields(string(text))
	for i, m := range p.Runs {
		if want := []string{"30Mbit", "10Mbit"}[m.Cell[0]]; len(rates) != len(p.Runs) || rates[i] != want {
			t.Errorf("run %d: the server found the rates %v, want %s", i+1, rates, want)
		}
	}
}

func TestThrottledInterface(t *testing.T) {
	p := &spec.Prove{Interface: "eth1", Namespace: "other"}
	if iface, space := new(bed).throttled(p); iface != "eth1" || space != "other" {
		t.Error(iface, space)
	}
	if iface, space := (&bed{in: &netns.Namespace{Name: "ours"}}).throttled(&spec.Prove{}); iface != netns.Interface || space != "ours" {
		t.Error(iface, space)
	}
}

// What cannot be tuned is refused before anything is started, and leaves nothing.
func TestTuningThatCannotBe(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	for _, c := range []struct{ tune, want string }{
		{"rps_cpus=lots", `RPS=on: profile rps_cpus=lots`},
		{"no_knob=1", `unknown knob "no_knob"`},
		{"fast", `unknown profile "fast"`},
		{"irq_affinity=all", "irq_affinity"},
	} {
		note := filepath.Join(dir, "started")
		e := steered(t, note)
		e.Factorial.Factors[0].Levels[1].Tune = []string{c.tune}
		_, _, err := Explore(t.Context(), e, Options{Out: filepath.Join(dir, "plan")}, nil)
		if !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.tune, err)
		}
		for _, path := range []string{note, filepath.Join(dir, "plan"), filepath.Join("/run/netns", netns.Name(bedNumber))} {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s: %s is there", c.tune, path)
			}
		}
	}
	e := steered(t, "")
	e.Factorial.Factors[0].Levels[1].Tune = []string{"rps-rfs", "rps_cpus=all"}
	if _, _, err := Explore(t.Context(), e, Options{Out: filepath.Join(dir, "plan")}, nil); err == nil ||
		!strings.Contains(err.Error(), "rps-rfs and rps_cpus=all both set rps_cpus") {
		t.Errorf("%v", err)
	}
	e = steered(t, "")
	e.Link, e.Servers[0] = spec.Link{}, spec.Server{URL: "http://192.0.2.1:80"}
	if _, _, err := Explore(t.Context(), e, Options{Out: filepath.Join(dir, "plan")}, nil); !errors.Is(err, exit.ErrRefused) ||
		!strings.Contains(err.Error(), "http://192.0.2.1:80 is not an address of it") {
		t.Errorf("%v", err)
	}
}

// onCopy is the check of tunings on a copy of a host with one NIC, as it is before a run.
func onCopy(t *testing.T, e spec.Experiment) error {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/system/cpu/online": "0-1", "sys/class/net/eth0/queues/rx-0/rps_cpus": "0", "sys/class/net/eth0/queues/rx-0/rps_flow_cnt": "0",
		"sys/class/net/lo/queues/rx-0/rps_cpus": "00000000,00000000", "proc/sys/net/core/somaxconn": "4096", "proc/sys/net/ipv4/tcp_fin_timeout": "60",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{host: tune.Host{Root: root}, options: tune.Options{Interface: e.Factorial.Interface}, here: true}
	return b.check(t.Context(), &e)
}

// TestTuningMustReachTheLoad: what the load does not cross is not tuned, and a level that changes
// nothing is none.
func TestTuningMustReachTheLoad(t *testing.T) {
	for _, c := range []struct {
		url, iface, off, on string
		want                string // in the error; "": none
	}{
		{"", "eth0", "", "rps_cpus=all",
			"RPS=on: eth0 rx-0 rps_cpus cannot act on the load: requests to http://127.0.0.1 cross lo, not eth0; write interface: lo, or"},
		{"http://127.0.0.1:8080", "eth0", "rps_cpus=none", "rps_cpus=all", "RPS=off: eth0 rx-0 rps_cpus cannot act"},
		{"http://localhost:8080", "eth0", "", "rps_flow_cnt=64", "cross lo, not eth0"},
		{"unix:/run/x.sock", "eth0", "", "rps_cpus=all", "is a unix socket"},
		{"unix:/run/x.sock", "", "", "net.core.somaxconn=100", ""},
		{"", "", "", "rps_cpus=all", ""}, // of lo
		{"", "", "rps_cpus=none", "rps_cpus=all", ""},
		{"", "", "", "rps_cpus=none", "RPS: levels off and on leave this host the same: lo rx-0 rps_cpus is "},
		{"", "", "net.core.somaxconn=4096", "net.core.somaxconn=4096", "net.core.somaxconn is 4096; give values that differ"},
		{"", "", "net.core.somaxconn=4096", "net.core.somaxconn=4097", ""},
		{"", "", "net.core.somaxconn=5", "net.core.somaxconn=5", "net.core.somaxconn is 5"},
	} {
		e := steered(t, "")
		e.Link, e.Factorial.Interface = spec.Link{}, c.iface
		if c.url != "" {
			e.Servers[0] = spec.Server{URL: c.url}
		}
		for i, text := range []string{c.off, c.on} {
			if text != "" {
				e.Factorial.Factors[0].Levels[i].Tune = []string{text}
			}
		}
		err := onCopy(t, e)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// A level that sets something else too may leave the host as it is.
	e := steered(t, "")
	e.Link = spec.Link{}
	e.Factorial.Factors[0].Levels[1] = spec.Level{Name: "on", Tune: []string{"rps_cpus=none"}, Lists: spec.Lists{Connections: spec.List[spec.Count]{8}}}
	if err := onCopy(t, e); err != nil {
		t.Error(err)
	}
}

// TestTuningOfAgents: a loopback address is that of each agent.
func TestTuningOfAgents(t *testing.T) {
	o := Options{Work: struct{ Work }{}}
	e := steered(t, "")
	for url, want := range map[string]string{
		"http://127.0.0.1:80": "http://127.0.0.1:80 is each agent's own host", "http://localhost:80": "is each agent's own host",
		"http://192.0.2.99:80": "is not an address of it", "http://no-such-host.invalid:80": "is not an address of it",
	} {
		e.Servers[0] = spec.Server{URL: url}
		if err := o.mayTune(t.Context(), &e, netip.Addr{}); !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
