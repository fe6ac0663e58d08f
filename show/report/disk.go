package report

import (
	"fmt"
	"strings"

	"ceiling/internal/unit"
	"ceiling/record"
)

// diskLine describes a block device's activity and the owners of its files.
func diskLine(d *record.DiskUse) string {
	parts := []string{
		d.Device + DiskOf(d),
		unit.FormatSI(d.ReadsPerS) + " reads/s, " + unit.FormatBytesSI(int64(d.ReadBytesPerS)) + "/s",
		unit.FormatSI(d.WritesPerS) + " writes/s, " + unit.FormatBytesSI(int64(d.WrittenBytesPerS)) + "/s",
	}
	if d.FlushesPerS > 0 {
		parts = append(parts, fmt.Sprintf("%s flushes/s × %s = %s of the time", unit.FormatSI(d.FlushesPerS), unit.FormatNs(int64(d.FlushNs)),
			unit.Percent(d.Flushing())))
	}
	return strings.Join(append(parts, fmt.Sprintf("busy %s, %s under way", unit.Percent(d.Busy), unit.Digits(d.Queue, 2))), " · ")
}

// DiskOf returns the owners of the files on a device, in brackets; "" if unknown.
func DiskOf(d *record.DiskUse) string {
	switch {
	case d.Server && d.Behind:
		return " (of the server, and of one that it asks)"
	case d.Server:
		return " (of the server)"
	case d.Behind:
		return " (of a server that it asks)"
	}
	return ""
}
