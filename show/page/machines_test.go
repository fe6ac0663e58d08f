//go:build linux

package page

import (
	"fmt"
	"strings"
	"testing"

	"ceiling/record"
	"ceiling/show/chart"
)

func TestInterruptTable(t *testing.T) {
	t.Parallel()
	table := interruptTable([]chart.Interrupt{{IRQ: 41, Name: "eth0-Tx-Rx-1", PerS: 1250, CPUs: []chart.InterruptShare{
		{CPU: 2, Share: .6}, {CPU: 3, Share: .1}, {CPU: 4, Share: .1}, {CPU: 5, Share: .1}, {CPU: 6, Share: .05}, {CPU: 7, Share: .05}}}})
	var got string
	for _, c := range table.Rows[0] {
		got += c.Text + "|"
	}
	if want := "41|eth0-Tx-Rx-1|1.25k|CPU 2 60%, CPU 3 10%, CPU 4 10%, CPU 5 10%, 2 more|"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Workers that share a port by SO_REUSEPORT are named with the connections that each holds.
func TestConnectionsByProcess(t *testing.T) {
	run := sampleRun(3, 2)
	row := &record.ListenerRow{ObservedHead: record.ObservedHead{Kind: record.KindListener, Host: "web1", TNs: 2e9, WidthNs: 1e8},
		Listeners:   []record.Listener{{Inode: 9, Addr: "10.0.0.2:8080", Max: 4096}, {Inode: 10, Addr: "10.0.0.2:8080", Max: 4096}},
		Connections: []record.ProcessConnections{{PID: 390, Connections: 41}}}
	run.Series.Observed.Add(row)
	d, err := Runs([]chart.Run{run})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := Markdown(&text, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 listening sockets share 10.0.0.2:8080 by SO\\_REUSEPORT", "| CPU | connections |", "| server | shop (390) | 1.70 | 41 |",
		"| generator | ceiling (77) | 0.40 | – |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		_, table, _ := strings.Cut(text.String(), "## Processes")
		t.Logf("%.900s", table)
	}
}

// TestDisks: what the verdict has of disks is on the page; of one without a cache to flush
// there is no time of a flush.
func TestDisks(t *testing.T) {
	run := sampleRun(3, 2)
	run.Verdict.Disks = []record.DiskUse{{Device: "sda", Server: true, WritesPerS: 640, FlushesPerS: 320, FlushNs: 3e6, Busy: .97, Queue: 1.4},
		{Device: "sdb", Behind: true, ReadsPerS: 5, Busy: .2, Queue: .2}}
	for _, b := range processesSection(&run).Blocks {
		if table, is := b.(Table); is && strings.HasPrefix(table.Caption, "Disks of") {
			text := fmt.Sprint(table.Rows)
			for _, want := range []string{"sda (of the server)", "97%", "1.40", "320", "3.00 ms", "96%", "sdb (of a server that it asks)", "–"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s lacks %s", text, want)
				}
			}
			return
		}
	}
	t.Error("no table of disks")
}
