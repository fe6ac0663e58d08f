package record

// Kinds of profiles.
const (
	ProfileCPU   = "profile"
	ProfileMutex = "mutex"
	ProfileBlock = "block"
)

// Profile sums up one profile of the subject, taken over its pprof endpoint
// during the window.
type Profile struct {
	// Kind is ProfileCPU, ProfileMutex or ProfileBlock, pprof's own names.
	Kind string `json:"kind"`
	// TotalNs is the sum over all samples: CPU time, or time spent waiting by
	// all goroutines together. 0: the server does not record this profile, or
	// nothing waited.
	TotalNs int64 `json:"total_ns"`
	// Frames hold the most of it, at most 8, the largest first.
	Frames []Frame `json:"frames"`
	// File is the name of the attachment that is the whole profile; "" none.
	File string `json:"file,omitempty"`
}

// Frame is a function of the subject's own code that time is spent under.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	// Through is the runtime's or sync's function it waits or works in.
	Through string `json:"through,omitempty"`
	Ns      int64  `json:"ns"`
	// Share of the profile's total, 0 to 1.
	Share float64 `json:"share"`
}
