package report

import (
	"testing"

	"ceiling/record"
)

func TestDiskLine(t *testing.T) {
	d := record.DiskUse{Device: "sda", Server: true, WritesPerS: 640, WrittenBytesPerS: 1.3e6,
		FlushesPerS: 320, FlushNs: 3e6, Busy: .97, Queue: 1.4}
	const want = "sda (of the server) · 0 reads/s, 0 B/s · 640 writes/s, 1.30 MB/s · 320 flushes/s × 3.00 ms = 96% of the time · " +
		"busy 97%, 1.4 under way"
	if got := diskLine(&d); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d = record.DiskUse{Device: "sdb", ReadsPerS: 1e4, ReadBytesPerS: 4e7, Busy: .5, Queue: 12}
	if got, want := diskLine(&d), "sdb · 10.0k reads/s, 40.0 MB/s · 0 writes/s, 0 B/s · busy 50%, 12 under way"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
