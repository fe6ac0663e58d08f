//go:build linux

package observe

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"ceiling/internal/sys"
	"ceiling/record"
)

// /proc/diskstats (block/genhd.c, diskstats_show; Documentation/admin-guide/iostats.rst): one line
// per block device and partition: its two numbers, its name, and seventeen figures, all but one
// cumulative since its creation. Times are in milliseconds, 32 bits wide.

// diskStat has one device's figures.
type diskStat struct {
	name                                              string
	reads, readSectors, writes, writtenSectors, inNow uint64
	flushes                                           uint64
	readMs, writeMs, busyMs, queueMs, flushMs         uint32
}

const (
	// diskFigures is their number since Linux 5.5, which added the flushes.
	diskFigures = 17
	// sectorBytes is the unit of the sector counts, whatever the device's sector size.
	sectorBytes = 512
	msNs        = 1_000_000
)

var errDiskStats = errors.New("/proc/diskstats: a line is not two numbers, a name and seventeen figures")

// parseDiskStats parses /proc/diskstats into disks[:0], and skips the names that whole rejects.
func parseDiskStats(text []byte, names *interned, whole func(name string) bool, disks []diskStat) ([]diskStat, error) {
	disks = disks[:0]
	c := sys.Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return disks, nil
		}
		l := sys.Cursor{Text: line}
		l.Skip(2)
		name := l.Word()
		if len(name) == 0 {
			return disks, errDiskStats
		}
		var v [diskFigures]uint64
		for i := range v {
			if v[i], ok = l.Uint(); !ok {
				return disks, errDiskStats
			}
		}
		if d := names.of(name); whole(d) {
			disks = append(disks, diskStat{
				name: d, reads: v[0], readSectors: v[2], readMs: uint32(v[3]), writes: v[4], writtenSectors: v[6], writeMs: uint32(v[7]),
				inNow: v[8], busyMs: uint32(v[9]), queueMs: uint32(v[10]), flushes: v[15], flushMs: uint32(v[16]),
			})
		}
	}
}

// diskDelta is the difference of two readings of one device. Times may have wrapped; a count that
// went backwards belongs to a recreated device.
func diskDelta(prev, cur *diskStat, row *record.DiskRow) {
	ns := func(prev, cur uint32) int64 { return int64(cur-prev) * msNs }
	row.Reads, row.ReadNs = int64(cur.reads-prev.reads), ns(prev.readMs, cur.readMs)
	row.ReadBytes = int64(cur.readSectors-prev.readSectors) * sectorBytes
	row.Writes, row.WriteNs = int64(cur.writes-prev.writes), ns(prev.writeMs, cur.writeMs)
	row.WrittenBytes = int64(cur.writtenSectors-prev.writtenSectors) * sectorBytes
	row.Flushes, row.FlushNs = int64(cur.flushes-prev.flushes), ns(prev.flushMs, cur.flushMs)
	row.BusyNs, row.InFlight = ns(prev.busyMs, cur.busyMs), int(min(cur.inNow, 1<<31-1))
	// The kernel's sum also counts flushes, but the writes that wait for them are in it already.
	row.QueueNs = int64(cur.queueMs-prev.queueMs-(cur.flushMs-prev.flushMs)) * msNs
	if min(row.Reads, row.ReadBytes, row.Writes, row.WrittenBytes, row.Flushes) < 0 {
		row.Bad = "a counter went backwards: the device was recreated"
	}
}

// idle reports whether nothing moved between two readings, and nothing is under way.
func idle(prev, cur *diskStat) bool { return *cur == *prev && cur.inNow == 0 }

// maxDisks bounds the rows of one sample; those with the server's files always come first.
const maxDisks = 16

// diskSampler samples /proc/diskstats.
type diskSampler struct {
	r         *reader
	fd        int
	names     *interned
	sysfs     string
	known     map[string]bool // by name: whether it is a whole device
	usedBy    func(device string) []int
	prev, cur []diskStat
}

// newDiskSampler takes the function that finds who has files open on a device.
func newDiskSampler(t *tools, usedBy func(device string) []int) (*diskSampler, error) {
	fd, err := openFile(t.proc + "/diskstats")
	if err != nil {
		return nil, err
	}
	return &diskSampler{r: &t.r, fd: fd, names: t.names, sysfs: t.sysfs, known: make(map[string]bool), usedBy: usedBy}, nil
}

// whole reports whether a device is not a partition, which has no directory of its own in
// /sys/block.
func (s *diskSampler) whole(name string) bool {
	is, known := s.known[name]
	if !known {
		_, err := os.Stat(s.sysfs + "/block/" + strings.ReplaceAll(name, "/", "!"))
		is = err == nil
		s.known[name] = is
	}
	return is
}

func (s *diskSampler) sample(at tick, emit Emit) error {
	text, err := s.r.whole(s.fd)
	if err != nil {
		return fmt.Errorf("read /proc/diskstats: %w", err)
	}
	s.prev, s.cur = s.cur, s.prev
	if s.cur, err = parseDiskStats(text, s.names, s.whole, s.cur); err != nil {
		return err
	}
	if at.first() {
		if len(s.cur) == 0 {
			return errors.New("/proc/diskstats has no block device that /sys/block shows")
		}
		return nil
	}
	sent := 0
	for _, used := range []bool{true, false} {
		for i := range s.cur {
			pids := s.usedBy(s.cur[i].name)
			if sent == maxDisks || len(pids) > 0 != used {
				continue
			}
			if s.emitDelta(at, i, pids, emit) {
				sent++
			}
		}
	}
	return nil
}

// emitDelta reports whether there was anything to emit for a device.
func (s *diskSampler) emitDelta(at tick, i int, pids []int, emit Emit) bool {
	cur := &s.cur[i]
	guess := i
	if guess >= len(s.prev) || s.prev[guess].name != cur.name {
		guess = slices.IndexFunc(s.prev, func(d diskStat) bool { return d.name == cur.name })
	}
	if guess < 0 || len(pids) == 0 && idle(&s.prev[guess], cur) {
		return false // new: nothing to compare with, or nothing moved
	}
	row := &record.DiskRow{ObservedHead: at.head(record.KindDisk), Device: cur.name, PIDs: pids}
	diskDelta(&s.prev[guess], cur, row)
	emit(row)
	return true
}

func (s *diskSampler) close() { closeFile(&s.fd) }
