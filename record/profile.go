package record

// Kinds of profiles.
const (
	ProfileCPU   = "profile"
	ProfileMutex = "mutex"
	ProfileBlock = "block"
)

// Profile summarises one profile of the subject, taken from its pprof endpoint during the window.
type Profile struct {
	// Kind is ProfileCPU, ProfileMutex or ProfileBlock, pprof's own names.
	Kind string `json:"kind"`
	// TotalNs is the sum over all samples: CPU time, or the waiting time of all goroutines. 0:
	// the server does not record this profile, or nothing waited.
	TotalNs int64 `json:"total_ns"`
	// Frames has the largest, at most 8, in descending order.
	Frames []Frame `json:"frames"`
	// File is the name of the attachment with the whole profile; "" if none.
	File string `json:"file,omitempty"`
}

// Frame is a function of the subject's own code under which time is spent.
type Frame struct {
	Function string `json:"function"` // of the subject's own code
	File     string `json:"file"`
	Line     int    `json:"line"`
	// Through is the function of runtime or sync that it waits or works in.
	Through string `json:"through,omitempty"`
	Ns      int64  `json:"ns"` // under this function
	// Share of the profile's total, 0 to 1.
	Share float64 `json:"share"`
}
