package verdict

import (
	"cmp"
	"slices"

	"ceiling/record"
)

const (
	// disksSaid bounds the devices listed; a device without files of an observed process is
	// listed if it was busy for a tenth of the window.
	disksSaid     = 8
	diskWorthSaid = 0.1
)

// diskFacts describes the block devices of the server's host over the window.
type diskFacts struct {
	list []record.DiskUse // the busiest first
	// pressure is the share of the window in which some task on the host waited for a disk (PSI).
	pressure figure
}

// disksOf summarises the disk rows.
func disksOf(f *serverSide, series *record.Series) diskFacts {
	var d diskFacts
	if !f.subject.known {
		return d
	}
	d.sumPressure(observed(f.base, series.Observed.PSI), f.subject.host)
	roles := map[int]string{}
	for _, row := range series.Observed.Subjects {
		if row.Host == f.subject.host && roles[row.PID] != record.RoleSubject { // a child of the server that it also calls is both
			roles[row.PID] = row.Role
		}
	}
	rows := map[string][]*record.DiskRow{}
	for _, row := range observed(f.base, series.Observed.Disks) {
		if row.Host == f.subject.host && row.WidthNs > 0 && row.Bad == "" {
			rows[row.Device] = append(rows[row.Device], row)
		}
	}
	for device, of := range rows {
		use := diskUse(device, of, f.base.run.WindowS())
		for _, row := range of {
			for _, pid := range row.PIDs {
				use.Server = use.Server || roles[pid] == record.RoleSubject
				use.Behind = use.Behind || roles[pid] == record.RolePeer
			}
		}
		if use.Server || use.Behind || use.Busy >= diskWorthSaid {
			d.list = append(d.list, use)
		}
	}
	slices.SortFunc(d.list, func(a, b record.DiskUse) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.FlushesPerS, a.FlushesPerS), cmp.Compare(a.Device, b.Device))
	})
	return d
}

func (d *diskFacts) sumPressure(rows []*record.PSIRow, host string) {
	waited, width := 0.0, 0.0
	for _, row := range rows {
		if row.Host == host && row.WidthNs > 0 && row.IOSomeNs >= 0 {
			waited, width = waited+float64(row.IOSomeNs), width+float64(row.WidthNs)
		}
	}
	if width > 0 {
		d.pressure = some(min(waited/width, 1))
	}
}

// diskUse sums the rows of one device. A device without the server's files has rows only for
// intervals with activity, so the window's length counts if it is longer.
func diskUse(device string, rows []*record.DiskRow, windowS float64) record.DiskUse {
	u := record.DiskUse{Device: device}
	var seconds, flushes, flushS, busy, queue float64
	for _, r := range rows {
		seconds += float64(r.WidthNs) / 1e9
		u.ReadsPerS += positive(float64(r.Reads))
		u.ReadBytesPerS += positive(float64(r.ReadBytes))
		u.WritesPerS += positive(float64(r.Writes))
		u.WrittenBytesPerS += positive(float64(r.WrittenBytes))
		flushes += positive(float64(r.Flushes))
		flushS += positive(float64(r.FlushNs)) / 1e9
		busy += positive(float64(r.BusyNs)) / 1e9
		queue += positive(float64(r.QueueNs)) / 1e9
	}
	seconds = max(seconds, windowS)
	for _, sum := range []*float64{&u.ReadsPerS, &u.ReadBytesPerS, &u.WritesPerS, &u.WrittenBytesPerS} {
		*sum /= seconds
	}
	u.FlushesPerS, u.Queue = flushes/seconds, queue/seconds
	if flushes > 0 {
		u.FlushNs = flushS / flushes * 1e9
	}
	// With a mean queue depth of one, it cannot be busy for longer than that; the kernel counts a
	// whole tick for a short request.
	u.Busy = min(busy/seconds, u.Queue, 1)
	return u
}

// uses returns the disks to list.
func (d *diskFacts) uses() []record.DiskUse { return d.list[:min(len(d.list), disksSaid)] }
