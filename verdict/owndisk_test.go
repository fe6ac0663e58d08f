package verdict

import (
	"testing"

	"ceiling/record"
)

// TestDiskWaits: a file system elsewhere holds requests up as a disk does; a lock is
// none.
func TestDiskWaits(t *testing.T) {
	for reason, want := range map[string]bool{
		record.WaitSync: true, record.WaitDisk: true, record.WaitNetworkFile: true, record.WaitLock: false, record.WaitReceive: false,
	} {
		d := diskWaitsOf([]offWait{{StackWait: record.StackWait{Reason: reason, Threads: 0.9, Distinct: 4}}})
		if got := d.holdUp(1); got != want {
			t.Errorf("0.9 threads in %s hold one up: %v, want %v", reason, got, want)
		}
	}
}
