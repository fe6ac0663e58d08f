//go:build linux

package observe

import (
	"fmt"
	"os"
	"path/filepath"

	"ceiling/record"
)

// NetworkCounters has what the kernel counted of packets and interrupts between two looks.
type NetworkCounters struct {
	// Softnet is /proc/net/softnet_stat and NetRx /proc/softirqs; both count all
	// interfaces of all network namespaces.
	Softnet []record.SoftnetCPU
	NetRx   []record.SoftirqCPU
	// IRQs is /proc/interrupts, all lines with a number.
	IRQs []record.IRQLine
	// ListenOverflows and BusyPollRxPackets are of one network namespace.
	ListenOverflows, BusyPollRxPackets int64
}

// NetworkSnapshot has those counters since boot: for a look before and after, without a run to observe.
type NetworkSnapshot struct {
	softnet []softnetLine
	softirq softirqSample
	irq     irqSample
	ext     *counterTable
}

// SnapshotNetwork reads them below a /proc, in the calling thread's network namespace.
func SnapshotNetwork(proc string) (*NetworkSnapshot, error) {
	l := &NetworkSnapshot{ext: newCounterTable("TcpExt: ", []string{"ListenOverflows", "BusyPollRxPackets"})}
	net := filepath.Join(proc, "thread-self/net")
	if _, err := os.Stat(net); err != nil { // a copy of a host's files
		net = filepath.Join(proc, "net")
	}
	names := newInterned()
	for _, file := range []struct {
		path  string
		parse func([]byte) error
	}{
		{net + "/softnet_stat", func(text []byte) (err error) {
			l.softnet, err = parseSoftnet(text, nil)
			return err
		}},
		{proc + "/softirqs", func(text []byte) error { return parseSoftirqs(text, &l.softirq) }},
		{proc + "/interrupts", func(text []byte) error {
			return parseInterrupts(text, names, func(int, []byte) bool { return true }, &l.irq)
		}},
		{net + "/netstat", l.ext.parse},
	} {
		text, err := os.ReadFile(file.path)
		if err == nil {
			err = file.parse(text)
		}
		if err != nil {
			return nil, fmt.Errorf("count packets: %w", err)
		}
	}
	for i := range l.softnet {
		if l.softnet[i].cpu < 0 && len(l.softnet) == len(l.irq.cpus) { // both list the online CPUs
			l.softnet[i].cpu = l.irq.cpus[i]
		}
	}
	return l, nil
}

// Since returns what was counted after an earlier look.
func (l *NetworkSnapshot) Since(before *NetworkSnapshot) NetworkCounters {
	row := record.IRQRow{}
	irqDelta(&before.irq, &l.irq, &row)
	return NetworkCounters{
		Softnet: softnetDelta(before.softnet, l.softnet, nil), NetRx: softirqDelta(&before.softirq, &l.softirq, nil), IRQs: row.Lines,
		ListenOverflows: l.ext.values[0] - before.ext.values[0], BusyPollRxPackets: l.ext.values[1] - before.ext.values[1],
	}
}
