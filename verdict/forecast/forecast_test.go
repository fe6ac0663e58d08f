package forecast

import (
	"math"
	"strings"
	"testing"

	"ceiling/record"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A resource divided by what a request takes of it, and the machines that a rate then needs.
func TestCeilingsAreDivisions(t *testing.T) {
	c := Costs{ServerCPUNs: 10_000, GeneratorCPUNs: 5000, ResponseBytes: 1000, RequestBytes: 100, ResponseNs: 1e6}
	m := &Machine{VCPUs: 8, Gbps: 4}
	f := Make(c, m, m)
	near(t, "server", f.Of(ServerCPU).PerS, 800_000)
	near(t, "generator", f.Of(GeneratorCPU).PerS, 1_600_000)
	near(t, "link", f.Of(Link).PerS, 4e9/8/1066)
	if top := f.Ceilings[0]; top.Resource != Link || top.Low > top.PerS || top.High < top.PerS {
		t.Errorf("%+v comes first", top)
	}
	n := f.For(2_000_000)
	if n.Servers != 5 || n.Generators != 5 || n.ServersMost < n.Servers {
		t.Errorf("%+v, want 5 of each: the link carries 469k", n)
	}
	near(t, "in flight", n.InFlight, 2000)
	c.OneThread = true
	near(t, "one thread", Make(c, m, m).Of(ServerCPU).PerS, 100_000)
}

// What was not measured, or is not known of the machine, is named, and no number of machines follows.
func TestMissingCostsAreNamed(t *testing.T) {
	m := &Machine{VCPUs: 8}
	f := Make(Costs{GeneratorCPUNs: 5000}, m, m)
	var lacks []string
	for _, one := range f.Missing {
		lacks = append(lacks, one.Resource)
	}
	if strings.Join(lacks, "; ") != "server CPU; link" {
		t.Errorf("%v", f.Missing)
	}
	if n := f.For(1000); n.Servers != 0 {
		t.Errorf("%+v", n)
	}
	if f := Make(Costs{}, m, m); len(f.Ceilings) > 0 {
		t.Errorf("%+v from no costs", f.Ceilings)
	}
}

func TestCostsOfARun(t *testing.T) {
	r := &record.Run{ID: "x"}
	r.Rate.CompletedPerS, r.Requests.Completed, r.Bytes = 1000, 2000, record.Bytes{Read: 8_000_000, Written: 200_000}
	r.Generator.CPUNsPerRequest = 7000
	c := CostsOf(r)
	if c.ResponseBytes != 4000 || c.RequestBytes != 100 || c.GeneratorCPUNs != 7000 || c.ServerCPUNs != 0 || c.ResponseNs != 0 || c.OneThread {
		t.Errorf("%+v", c)
	}
	r.Subject, r.Verdict.Bottleneck = &record.Subject{CPUNsPerRequest: 12_000}, record.ServerThread
	if c := CostsOf(r); c.ServerCPUNs != 12_000 || !c.OneThread {
		t.Errorf("%+v", c)
	}
}

func TestMachines(t *testing.T) {
	for text, want := range map[string]Machine{
		"64cores,50Gbps":            {VCPUs: 64, Gbps: 50},
		"1core":                     {VCPUs: 1},
		"8cores, 12.5Gbps, 1.5Mpps": {VCPUs: 8, Gbps: 12.5, PacketsPerS: 1.5e6},
	} {
		if m, err := ParseMachine(text); err != nil || *m != want {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "64", "50Gbps", "xcores", "64cores,fast", "-4cores", "4cores,xGbps", "NaNcores"} {
		if _, err := ParseMachine(text); err == nil || !strings.Contains(err.Error(), "64cores,50Gbps") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Packets and disk flushes are divisions too: of what the machine lets through, and of the time of a flush.
func TestPacketsAndDisks(t *testing.T) {
	r := &record.Run{ID: "x"}
	r.Rate.CompletedPerS, r.Requests.Completed = 1000, 2000
	r.Verdict.Hosts = []record.HostUse{{End: "server", Link: "eth0", RxPacketsPerS: 1500, TxPacketsPerS: 2500}, {End: "generator"}}
	r.Verdict.Disks = []record.DiskUse{{Device: "sda", FlushesPerS: 900, FlushNs: 5e6}, {Device: "sdb", Behind: true, FlushesPerS: 500, FlushNs: 1e6}}
	c := CostsOf(r)
	if c.Packets != 2.5 || c.Flushes != .5 || c.FlushNs != 1e6 {
		t.Fatalf("%+v", c)
	}
	r.Verdict.Disks = []record.DiskUse{{Device: "sda", Server: true, FlushesPerS: 12, FlushNs: 5e4}}
	if others := CostsOf(r); others.Flushes != 0 {
		t.Errorf("flushes of 0.06%% of the time are a cost of requests: %+v", others)
	}
	m, err := ParseMachine("8cores,10Gbps,1Mpps")
	if err != nil || m.PacketsPerS != 1e6 {
		t.Fatal(m, err)
	}
	c.ServerCPUNs, c.GeneratorCPUNs, c.ResponseBytes = 10_000, 5000, 1000
	f := Make(c, m, m)
	near(t, "packets", f.Of(Packets).PerS, 400_000)
	near(t, "disk", f.Of(DiskFlushes).PerS, 2000)
	if n := f.For(5000); n.Servers != 3 || n.Generators != 1 {
		t.Errorf("%+v, want 3 servers for their disks", n)
	}
	m.PacketsPerS = 0
	f = Make(c, m, m)
	if f.Of(Packets) != nil || len(f.Missing) != 1 || f.Missing[0].Resource != Packets {
		t.Errorf("%+v", f.Missing)
	}
	if m, err := ParseMachine("8cores,manypps"); err == nil {
		t.Errorf("%+v", m)
	}
}
