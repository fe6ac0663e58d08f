package record

// DiskUse is what a block device of the server's host did over the window.
type DiskUse struct {
	Device string `json:"device"`
	// Server tells that the server has files open on it, Behind that a server which it
	// asks has.
	Server           bool    `json:"server,omitempty"`
	Behind           bool    `json:"behind,omitempty"`
	ReadsPerS        float64 `json:"reads_per_s,omitempty"`
	ReadBytesPerS    float64 `json:"read_bytes_per_s,omitempty"`
	WritesPerS       float64 `json:"writes_per_s,omitempty"`
	WrittenBytesPerS float64 `json:"written_bytes_per_s,omitempty"`
	FlushesPerS      float64 `json:"flushes_per_s,omitempty"`
	FlushNs          float64 `json:"flush_ns,omitempty"` // mean of one flush
	// Busy is the share of the window with a request under way, Queue the mean number
	// under way.
	Busy  float64 `json:"busy"`
	Queue float64 `json:"queue"`
}

// Flushing is the share of the window with a flush under way: their number times what one
// takes.
func (d *DiskUse) Flushing() float64 { return min(d.FlushesPerS*d.FlushNs/1e9, 1) }
