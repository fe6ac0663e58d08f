package record

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
