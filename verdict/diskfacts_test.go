package verdict

import (
	"math"
	"testing"
	"time"

	"ceiling/record"
)

// flushing gives a run ten seconds of a disk with files of a process: so many flushes a
// second, of so long each.
func (w *watchedRun) flushing(device string, perS int64, each time.Duration, pids ...int) *watchedRun {
	for s := range 10 {
		ns := perS * int64(each)
		w.row(s, time.Second, &record.DiskRow{Device: device, PIDs: pids, Reads: 10, ReadBytes: 40960, ReadNs: 1e6, Writes: 2 * perS,
			WrittenBytes: 4096 * perS, WriteNs: ns, Flushes: perS, FlushNs: ns, BusyNs: ns, QueueNs: ns + 1e6})
	}
	return w
}

// TestDiskUse: what the rows say comes to the planted figures, of the server's host only.
func TestDiskUse(t *testing.T) {
	w := watched(70e6, .2).flushing("sda", 300, 3*time.Millisecond, 100).flushing("sdb", 10, time.Millisecond)
	w.flushing("sdc", 200, time.Millisecond)
	each(w, func(r *record.DiskRow) {
		if r.Device == "sdc" && r.TNs < 6e9 {
			r.Bad = "a counter went backwards"
		}
	})
	w.row(0, time.Second, &record.DiskRow{Device: "sdd", BusyNs: 1e9, QueueNs: 1e6}) // a kernel that counts a tick for each short request
	list := w.judge().Disks
	if len(list) != 2 || list[0].Device != "sda" || list[1].Device != "sdc" || list[1].Busy > .11 {
		t.Fatalf("%+v", list)
	}
	d := list[0]
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("flushes", d.FlushesPerS, 300)
	near("a flush", d.FlushNs, 3e6)
	near("flushing", d.Flushing(), .9)
	near("busy", d.Busy, .9)
	near("queue", d.Queue, .901)
	near("writes", d.WritesPerS, 600)
	near("written", d.WrittenBytesPerS, 300*4096)
	near("reads", d.ReadsPerS, 10)
	near("read", d.ReadBytesPerS, 40960)
	w.found(record.RolePeer, 100, "srv") // its own child that it asks
	if d := w.judge().Disks[0]; !d.Server || d.Behind {
		t.Errorf("a process of the server that is behind as well: %+v", d)
	}
	if !d.Server || d.Behind {
		t.Errorf("whose files are on it: %+v", d)
	}
	each(w, func(r *record.DiskRow) { r.Host = "other" })
	if list := w.judge().Disks; len(list) != 0 {
		t.Errorf("of another host: %+v", list)
	}
}
