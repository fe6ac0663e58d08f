package chart

import (
	"testing"

	"ceiling/record"
)

// The number of sockets that share an address is that of one moment, whatever it is: 4 workers that
// were restarted have 4, not 8. A copy without rows has it from the result.
func TestSharedListeners(t *testing.T) {
	row := func(first, n int) *record.ListenerRow {
		r := &record.ListenerRow{Listeners: []record.Listener{{Inode: 1000, Addr: "127.0.0.1:9"}},
			Connections: []record.ProcessConnections{{PID: 7, Connections: 40}, {PID: 8, Connections: 24}}}
		for i := range n {
			r.Listeners = append(r.Listeners, record.Listener{Inode: uint64(first + i), Addr: "127.0.0.1:8080"})
		}
		return r
	}
	for _, n := range []int{2, 3, 4, 16} {
		run := &Run{Run: &record.Run{}, Series: &record.Series{}}
		run.Series.Observed.Add(row(1, n))
		run.Series.Observed.Add(row(100, n))
		if got, addr := SharedListeners(run); got != n || addr != "127.0.0.1:8080" {
			t.Errorf("%d sockets on %s, want %d", got, addr, n)
		}
	}
	one := &Run{Run: &record.Run{}, Series: &record.Series{}}
	one.Series.Observed.Add(row(1, 1))
	if n, _ := SharedListeners(one); n != 0 {
		t.Errorf("one socket is shared by %d", n)
	}
	held := 24
	copied := &Run{Run: &record.Run{Subject: &record.Subject{Address: "127.0.0.1:8080", Sharing: 4,
		Processes: []record.SubjectProcess{{PID: 8, Connections: &held}}}}}
	if n, addr := SharedListeners(copied); n != 4 || addr != "127.0.0.1:8080" || ConnectionsOf(copied)[8] != 24 {
		t.Errorf("%d on %s, %v", n, addr, ConnectionsOf(copied))
	}
}
