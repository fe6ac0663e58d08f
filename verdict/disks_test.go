package verdict

import (
	"math"
	"strings"
	"testing"
	"time"

	"ceiling/internal/hist"
	"ceiling/record"
)

// waitingForDisk is a server that waits for a disk: so many of its four threads in state D
// in each look, which were so many different ones, and pressure on its host.
func waitingForDisk(threads, different int, pressure float64) *watchedRun {
	w := watched(190e6, .2)
	n := 0
	each(w, func(r *record.ProcessRow) {
		r.States = record.ThreadCount{Disk: threads, Sleeping: 4 - threads}
		for i := range threads {
			r.Busiest = append(r.Busiest, record.ThreadUse{TID: 100 + (n+i)%max(different, 1), Comm: "srv", RunNs: 1e6, State: "D"})
		}
		n++
	})
	for s := range 10 {
		w.row(s, time.Second, &record.PSIRow{IOSomeNs: int64(pressure * 1e9)})
	}
	return w
}

// inTurn has the requests of a run wait for each other: a lone one takes 3 ms, and of the
// first ones each that much longer than the one before.
func inTurn(w *watchedRun) *watchedRun {
	var first hist.Hist
	for i := range int64(64) {
		first.Record((i + 1) * 3e6)
	}
	var all hist.Hist
	for range w.run.Requests.Completed {
		all.Record(190e6)
	}
	w.run.Latency.ServiceBins, w.run.Latency.ResponseBins = record.BinsOf(&all), record.BinsOf(&all)
	w.run.FirstAnswers, w.run.Unloaded = record.BinsOf(&first), loneSample(24, func() int64 { return 3e6 })
	return w
}

// reading gives a run a disk that is read: so many under way on average.
func (w *watchedRun) reading(device string, perS int64, queue float64, pids ...int) *watchedRun {
	for s := range 10 {
		w.row(s, time.Second, &record.DiskRow{Device: device, PIDs: pids, Reads: perS, ReadBytes: 16384 * perS, ReadNs: int64(queue * 1e9),
			BusyNs: 99e7, QueueNs: int64(queue * 1e9)})
	}
	return w
}

// TestDiskIsNamedByCounts: without stacks and without a database to ask, a disk is named
// where it had work all the time and threads of the server waited, and only there.
func TestDiskIsNamedByCounts(t *testing.T) {
	const flushes = "the requests wait for disk sdb: on average 1 of the server's threads wait for it (state D), and disk sdb was busy 96% of the time: " +
		"320 flushes/s × 3.00 ms = 96% of it"
	for name, c := range map[string]struct {
		w             *watchedRun
		says, refuses string
	}{
		"a flush at a time": {w: waitingForDisk(1, 3, .97).flushing("sdb", 320, 3*time.Millisecond, 100), says: flushes},
		"what to do":        {w: waitingForDisk(1, 3, .97).flushing("sdb", 320, 3*time.Millisecond, 100), says: "sync less often (several requests per sync), or move the data on sdb to a faster disk"},
		"on a volume": {w: waitingForDisk(1, 3, .97).reading("dm-0", 320, .99, 100).flushing("sdb", 320, 3*time.Millisecond, 100),
			says: flushes},
		"whose files are not known": {w: waitingForDisk(1, 3, .97).flushing("sdb", 320, 3*time.Millisecond), says: "is inferred: it is the busy disk"},
		"another one is busy": {w: waitingForDisk(1, 3, .97).flushing("sda", 10, time.Millisecond, 100).flushing("sdb", 320, 3*time.Millisecond),
			says: flushes},
		"files of a server behind": {w: func() *watchedRun {
			w := waitingForDisk(1, 3, .97).flushing("sdb", 320, 3*time.Millisecond, 50)
			w.found(record.RolePeer, 50, "db")
			return w
		}(), refuses: "wait for disk"},
		"a log beside the requests":       {w: waitingForDisk(1, 1, .97).flushing("sdb", 320, 3*time.Millisecond, 100), refuses: "wait for disk"},
		"one thread for requests in turn": {w: inTurn(waitingForDisk(1, 1, .97).flushing("sdb", 320, 3*time.Millisecond, 100)), says: flushes},
		"only one thread was seen":        {w: inTurn(waitingForDisk(1, 1, .97).flushing("sdb", 320, 3*time.Millisecond, 100)), says: "it might write a log that no request waits for"},
		"threads that do not wait":        {w: waitingForDisk(0, 0, .97).flushing("sdb", 320, 3*time.Millisecond, 100), refuses: "wait for disk"},
		"busy is not full":                {w: waitingForDisk(0, 0, .97).flushing("sdb", 320, 3*time.Millisecond, 100), says: "but the server's threads did not wait for it (0 in state D)"},
		"threads that wait now and then": {w: each(waitingForDisk(1, 4, .97).flushing("sdb", 320, 3*time.Millisecond, 100), func(r *record.ProcessRow) {
			if r.TNs%5e9 != 0 {
				r.States.Disk = 0
			}
		}), refuses: "wait for disk"},
		"no pressure":           {w: waitingForDisk(1, 3, .1).flushing("sdb", 320, 3*time.Millisecond, 100), refuses: "wait for disk"},
		"a disk with time left": {w: waitingForDisk(1, 3, .97).flushing("sdb", 220, 3*time.Millisecond, 100), refuses: "wait for disk"},
		"a pair of reads of 64": {w: waitingForDisk(2, 4, .97).reading("sdb", 4000, 2, 100),
			refuses: "wait for disk"}, // a parallel disk would take more
		"many reads": {w: func() *watchedRun {
			w := waitingForDisk(2, 4, .97).reading("sdb", 4000, 40, 100)
			each(w, func(r *record.ProcessRow) { r.States.Disk = 40 })
			return w
		}(), says: "which does not prove saturation: a disk that serves requests in parallel may take more than the 40"},
		"a server without CPU left": {w: func() *watchedRun {
			w := waitingForDisk(1, 3, .97).flushing("sdb", 320, 3*time.Millisecond, 100)
			each(w, func(r *record.ProcessRow) { r.CPUNs = 19e8 })
			each(w, func(r *record.CPURow) {
				for i := range r.Cores {
					r.Cores[i].User, r.Cores[i].Idle = 98, 0
				}
			})
			return w
		}(), refuses: "wait for disk"},
	} {
		v := c.w.judge()
		text := sayings(v)
		if c.says != "" && !strings.Contains(text, c.says) {
			t.Errorf("%s: %q is not in %s", name, c.says, text)
		}
		if c.refuses != "" && strings.Contains(text, c.refuses) {
			t.Errorf("%s: %q is in %s", name, c.refuses, text)
		}
		if strings.HasPrefix(c.says, "the requests wait") && v.Bottleneck != record.ServerBlocked {
			t.Errorf("%s: %s", name, v.Bottleneck)
		}
		allSaid(t, v)
	}
}

// TestDiskIsSaidWithStacks: what is named by stacks has the disk's counts beside it, of the
// server and of one that it asks.
func TestDiskIsSaidWithStacks(t *testing.T) {
	for name, c := range map[string]struct{ fixture, says string }{
		"behind, by stacks": {"behind-disk.json", "on device vda; disk vda was busy 92% of the time: 920 flushes/s × 1.00 ms = 92% of it"},
		"behind, by states": {"behind-disk-states.json", "were in uninterruptible sleep, and disk vda was busy 92% of the time"},
	} {
		run, series := fixtureNamed(t, c.fixture)
		w := &watchedRun{run, series}
		w.flushing("vda", 920, time.Millisecond, 51)
		if text := sayings(w.judge()); !strings.Contains(text, c.says) {
			t.Errorf("%s: %q is not in %s", name, c.says, text)
		}
	}
}

// TestDiskBehindIsInferred: a short run may have one sample of what the threads of a server behind do.
// It does not show that they do not wait, and the disk's own counts decide.
func TestDiskBehindIsInferred(t *testing.T) {
	for name, c := range map[string]struct {
		samples       int
		pressure      float64
		says, refuses string
	}{
		"one sample":               {1, .97, "has only 1 sample of its threads' states", "did not wait for a disk"},
		"no sample":                {0, .97, "has no sample of its threads' states", "did not wait for a disk"},
		"one, without pressure":    {1, .1, "", "waits for its disk"},
		"one, which shows nothing": {1, .1, "", "did not wait for a disk"},
		"enough samples":           {looksFewest, .97, "did not wait for a disk", "waits for its disk"},
	} {
		run, series := fixtureNamed(t, "behind-disk-states.json")
		w := &watchedRun{run, series}
		left := map[int]int{}
		each(w, func(r *record.ProcessRow) {
			if r.Role != record.RolePeer {
				return
			}
			if left[r.PID]++; left[r.PID] > c.samples {
				r.States = record.ThreadCount{}
			} else {
				r.States = record.ThreadCount{Sleeping: r.States.Running + r.States.Sleeping + r.States.Disk + r.States.Other}
			}
		})
		for s := range 10 {
			w.row(s, time.Second, &record.PSIRow{IOSomeNs: int64(c.pressure * 1e9)})
		}
		w.flushing("vda", 920, time.Millisecond, 51)
		text := sayings(w.judge())
		if !strings.Contains(text, c.says) || c.refuses != "" && strings.Contains(text, c.refuses) {
			t.Errorf("%s: want %q and not %q in %s", name, c.says, c.refuses, text)
		}
	}
}

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
