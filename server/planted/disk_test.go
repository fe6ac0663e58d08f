package planted

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSyncTakesItsTime also holds that kill -9 leaves nothing, be it of who waits for a
// sync or of the disk.
func TestSyncTakesItsTime(t *testing.T) {
	if err := TrySlowDisk(); err != nil {
		t.Skip(err)
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
	if err != nil || strings.Contains(string(mounts), "ceiling") {
		t.Errorf("a mount is seen by others, or %v", err)
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
