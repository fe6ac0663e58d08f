package record

import (
	"strings"

	"ceiling/internal/unit"
)

// HostUse is what the CPUs of one end did over the window, and what its link carried.
type HostUse struct {
	// End is "server", "generator", or "both" where they may use the same CPUs.
	End  string `json:"end"`
	Host string `json:"host,omitempty"`
	// CPUs of that end: "0-3".
	CPUs string `json:"cpus"`
	// Shares of these CPUs' time by the kernel's count in ticks of 10 ms, which add up to 1. User
	// includes nice, Idle the time in which a disk request was outstanding.
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	IRQ     float64 `json:"irq"`
	SoftIRQ float64 `json:"softirq"`
	Steal   float64 `json:"steal"` // taken by the hypervisor
	Idle    float64 `json:"idle"`
	// Link is the interface toward the other end, "" on the loopback or if none was watched; what it
	// carried, per second, as the kernel counts it.
	Link          string  `json:"link,omitempty"`
	RxBytesPerS   float64 `json:"rx_bytes_per_s,omitempty"`
	TxBytesPerS   float64 `json:"tx_bytes_per_s,omitempty"`
	RxPacketsPerS float64 `json:"rx_packets_per_s,omitempty"`
	TxPacketsPerS float64 `json:"tx_packets_per_s,omitempty"`
}

// Name returns whose CPUs these are.
func (u *HostUse) Name() string {
	name := map[string]string{"both": "generator and server"}[u.End]
	if name == "" {
		name = u.End
	}
	if u.Host != "" {
		name += " on " + u.Host
	}
	return name
}

// String lists the shares, and what the link carried.
func (u *HostUse) String() string {
	parts := []string{"usr " + unit.PercentFixed(u.User), "sys " + unit.PercentFixed(u.System)}
	if u.IRQ > 0 {
		parts = append(parts, "irq "+unit.PercentFixed(u.IRQ))
	}
	parts = append(parts, "softirq "+unit.PercentFixed(u.SoftIRQ), "steal "+unit.PercentFixed(u.Steal), "idle "+unit.PercentFixed(u.Idle))
	text := strings.Join(parts, ", ")
	if u.Link != "" {
		text += "; " + u.Link + " in " + unit.FormatBytesSI(int64(u.RxBytesPerS+.5)) + "/s, " + unit.FormatSI(u.RxPacketsPerS) + " packets/s, out " +
			unit.FormatBytesSI(int64(u.TxBytesPerS+.5)) + "/s, " + unit.FormatSI(u.TxPacketsPerS) + " packets/s"
	}
	return text
}

// DiskUse is the activity of a block device of the server's host over the window.
type DiskUse struct {
	Device string `json:"device"` // of the server's host, the busiest first
	// Server: the server has files open on it; Behind: a server that it calls has.
	Server           bool    `json:"server,omitempty"`
	Behind           bool    `json:"behind,omitempty"`
	ReadsPerS        float64 `json:"reads_per_s,omitempty"`
	ReadBytesPerS    float64 `json:"read_bytes_per_s,omitempty"`
	WritesPerS       float64 `json:"writes_per_s,omitempty"` // an fsync without data counts as one
	WrittenBytesPerS float64 `json:"written_bytes_per_s,omitempty"`
	FlushesPerS      float64 `json:"flushes_per_s,omitempty"` // of its cache
	FlushNs          float64 `json:"flush_ns,omitempty"`      // mean of one flush
	// Busy is the share of the window with a request in flight, Queue the mean queue depth.
	Busy  float64 `json:"busy"`
	Queue float64 `json:"queue"`
}

// Flushing returns the share of the window with a flush in progress: their number times the mean
// duration.
func (d *DiskUse) Flushing() float64 { return min(d.FlushesPerS*d.FlushNs/1e9, 1) }
