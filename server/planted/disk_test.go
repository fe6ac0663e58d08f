package planted

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestSyncTakesItsTime also holds that kill -9 leaves nothing, be it of who waits for a
// sync or of the disk.
func TestSyncTakesItsTime(t *testing.T) {
	needs.Quiet(t)
	needs.Root(t)
	if err := TrySlowDisk(); err != nil {
		t.Fatal(err)
	}
	const sync = 5 * time.Millisecond
	s := spawn(t, "sync", Params{Sleep: sync})
	disks := s.children()
	if len(disks) != 1 {
		t.Fatalf("%d processes serve the disk", len(disks))
	}
	d := drive(t, s.addr, 12, manyRequests, time.Second)
	between(t, "rate", d.perSecond(), 0.5/sync.Seconds(), 1.01/sync.Seconds())
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || strings.Contains(string(mounts), "ceiling ") { // its source
		t.Errorf("a mount is seen by others, or %v:\n%s", err, mounts)
	}

	ended := make(chan *driven)
	go func() { ended <- drive(t, s.addr, 4, 1000, 300*time.Millisecond) }()
	time.Sleep(50 * time.Millisecond)
	s.end(syscall.SIGKILL)
	waitGone(t, disks)
	<-ended

	s = spawn(t, "sync", Params{Sleep: sync})
	disks = s.children()
	if err := syscall.Kill(disks[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitGone(t, disks)
	d = drive(t, s.addr, 2, 4, time.Second)
	if d.statuses[200] != 0 || d.statuses[500] == 0 {
		t.Errorf("without its disk it answered %v", d.statuses)
	}
}

// TestFlushesAreCounted: so many requests are so many flushes of a block device, of the
// planted time each or more, by the kernel's own count; and kill -9 leaves no device.
func TestFlushesAreCounted(t *testing.T) {
	needs.Root(t)
	if err := TrySlowDevice(); err != nil {
		t.Fatal(err)
	}
	const flush, requests = 5 * time.Millisecond, 40
	s := spawn(t, "flush", Params{Sleep: flush})
	disks, device := s.children(), loopOf(t, s.pid)
	writes, flushes, ms := statsOf(t, device)
	d := drive(t, s.addr, 4, requests, 10*time.Second)
	if d.statuses[200] != requests {
		t.Fatalf("%v of %d requests", d.statuses, requests)
	}
	w, f, m := statsOf(t, device)
	// A flush without data counts as a write as well.
	if w-writes != 2*requests || f-flushes != requests || m-ms < requests*flush.Milliseconds() {
		t.Errorf("%d requests: %d writes, %d flushes of %d ms", requests, w-writes, f-flushes, m-ms)
	}
	s.end(syscall.SIGKILL)
	waitGone(t, disks)
	for range 100 {
		if _, err := os.Stat("/sys/block/" + device + "/loop"); os.IsNotExist(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s is still there", device)
}

// loopOf is the loop device that a process has open.
func loopOf(t *testing.T, pid int) string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink(dir + "/" + f.Name()); err == nil && strings.HasPrefix(to, "/dev/loop") && to != "/dev/loop-control" {
			return strings.TrimPrefix(to, "/dev/")
		}
	}
	t.Fatal("no loop device is open")
	return ""
}

// statsOf is what the kernel counted of a device: writes, flushes and their ms.
func statsOf(t *testing.T, device string) (writes, flushes, flushMs int64) {
	t.Helper()
	text, err := os.ReadFile("/sys/block/" + device + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	var v [17]int64
	for i, word := range strings.Fields(string(text)) {
		if i < len(v) {
			if v[i], err = strconv.ParseInt(word, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return v[4], v[15], v[16]
}
