//go:build linux

package observe

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ceiling/internal/sys"
	"ceiling/record"
)

// diskText is of a virtual machine with a partition put in.
const diskText = "" +
	"   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n" +
	" 254       0 vda 81508 17831 4024018 40541 26459 77571 9882096 32722 3 26044 74740 11662 51 2532760 1390 2064 85\n" +
	" 254       1 vda1 81000 17831 4024000 40000 26000 77571 9882000 32000 0 26000 74000 11662 51 2532760 1390 0 0\n"

func TestDiskStats(t *testing.T) {
	whole := func(name string) bool { return name != "vda1" }
	disks, err := parseDiskStats([]byte(diskText), newInterned(), whole, nil)
	want := []diskStat{{name: "loop0"}, {name: "vda", reads: 81508, readSectors: 4024018, readMs: 40541, writes: 26459, writtenSectors: 9882096,
		writeMs: 32722, inNow: 3, busyMs: 26044, queueMs: 74740, flushes: 2064, flushMs: 85}}
	if d := cmp.Diff(want, disks, cmp.AllowUnexported(diskStat{})); err != nil || d != "" {
		t.Fatal(err, d)
	}
	// A later kernel may add figures; one before 5.5 has no flushes.
	if disks, err = parseDiskStats([]byte("8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n"), newInterned(), whole, disks); err != nil ||
		len(disks) != 1 || disks[0].flushMs != 17 {
		t.Error(err, disks)
	}
	for _, text := range []string{
		"8 0 sda\n", "8 0\n", "8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n", "8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 x\n",
	} {
		if _, err := parseDiskStats([]byte(text), newInterned(), whole, nil); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// Times wrap after 49 days of them; counts do not. A write that waits for a flush is under
// way once, though the kernel's sum has the flush as well.
func TestDiskDelta(t *testing.T) {
	prev := diskStat{reads: 10, readSectors: 80, readMs: 1<<32 - 5, writes: 1, writeMs: 7, busyMs: 1<<32 - 1, queueMs: 100,
		flushes: 3, flushMs: 40}
	cur := diskStat{reads: 14, readSectors: 96, readMs: 15, writes: 3, writtenSectors: 8, writeMs: 57, inNow: 2, busyMs: 69, queueMs: 218,
		flushes: 5, flushMs: 88}
	var row record.DiskRow
	diskDelta(&prev, &cur, &row)
	want := record.DiskRow{Reads: 4, ReadBytes: 8192, ReadNs: 20e6, Writes: 2, WrittenBytes: 4096, WriteNs: 50e6, Flushes: 2, FlushNs: 48e6,
		BusyNs: 70e6, QueueNs: 70e6, InFlight: 2}
	if d := cmp.Diff(want, row); d != "" {
		t.Error(d)
	}
	if diskDelta(&cur, &prev, &row); row.Bad == "" {
		t.Errorf("backwards: %+v", row)
	}
	var never diskStat
	if idle(&cur, &cur) || idle(&never, &cur) || !idle(&never, &never) {
		t.Error("a request under way is idle, or nothing is not")
	}
}

// A file on a volume is on the volume, on the array below it and on the disks of that, of
// which a partition is the whole disk.
func TestDisksBelowAVolume(t *testing.T) {
	sysfs := t.TempDir()
	put(t, sysfs, "devices/a/block/sda/sda2/partition", "2\n")
	put(t, sysfs, "devices/b/block/sdb/dev", "8:16\n")
	put(t, sysfs, "devices/virtual/block/dm-0/slaves/sda2", "")
	put(t, sysfs, "devices/virtual/block/dm-0/slaves/sdb", "")
	link := func(from, to string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(sysfs+"/"+from), 0o755); err != nil {
			t.Fatal(err)
		}
		to, err := filepath.Rel(filepath.Dir(sysfs+"/"+from), sysfs+"/devices/"+to)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, sysfs+"/"+from); err != nil {
			t.Fatal(err)
		}
	}
	for name, dir := range map[string]string{"sda": "a/block/sda", "sdb": "b/block/sdb", "dm-0": "virtual/block/dm-0"} {
		link("block/"+name, dir)
		link("class/block/"+name, dir)
	}
	link("class/block/sda2", "a/block/sda/sda2")
	link("dev/block/8:2", "a/block/sda/sda2")
	link("dev/block/253:0", "virtual/block/dm-0")
	d := newDiskFiles(&tools{sysfs: sysfs}, nil, nil)
	for at, want := range map[sys.FileDevice][]string{{Major: 253}: {"dm-0", "sda", "sdb"}, {Major: 8, Minor: 2}: {"sda"}, {Major: 9}: nil} {
		if got := d.below(d.named(at), nil); !slices.Equal(got, want) {
			t.Errorf("%d:%d is on %v, want %v", at.Major, at.Minor, got, want)
		}
	}
	s := diskSampler{sysfs: sysfs, known: map[string]bool{}}
	if !s.whole("dm-0") || s.whole("sda2") {
		t.Error("a partition is no device of its own")
	}
}

// TestOwnFlushes holds the counts against what this process has done: so many syncs of a
// file of its own, on the device where that file is.
func TestOwnFlushes(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := newObserver(t, Config{SubjectPIDs: []int{os.Getpid()}, Interval: 10 * time.Millisecond})
	c := collect{t: t}
	o.Sample(0, c.emit)
	const syncs = 20
	for range syncs {
		if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	// Long after that, so that every round is due.
	o.Sample(1e10, c.emit)
	o.Sample(2e10, c.emit)
	var flushes, written int64
	device := ""
	for _, row := range rowsOf[record.DiskRow](&c) {
		if slices.Contains(row.PIDs, os.Getpid()) {
			device, flushes, written = row.Device, max(flushes, row.Flushes), max(written, row.WrittenBytes)
		}
	}
	if device == "" {
		t.Skipf("the temporary directory is on no block device: %+v", o.NotMeasured())
	}
	if cache, err := os.ReadFile("/sys/block/" + device + "/queue/write_cache"); err != nil || string(cache) != "write back\n" {
		t.Skipf("%s has no cache to flush", device)
	}
	if flushes < syncs || written < syncs*4096 {
		t.Errorf("%s: %d flushes and %d bytes written, of %d syncs of 4 KiB", device, flushes, written, syncs)
	}
}
