package record

// Kinds of a ProfileOf, in the order in which pages show them.
const (
	ProfileOnCPU     = "on-cpu"    // the kernel's samples of running code, any language
	ProfileOffCPU    = "off-cpu"   // what threads waited for, any language
	ProfileGoCPU     = "go-cpu"    // Go's own CPU profile
	ProfileGoBlock   = "block"     // what goroutines waited for
	ProfileGoMutex   = "mutex"     // locks that others waited for
	ProfileAllocs    = "allocs"    // bytes allocated
	ProfileHeap      = "heap"      // bytes in use
	ProfileGoroutine = "goroutine" // where goroutines are
)

// ProfileKinds returns all of them, in the order above.
func ProfileKinds() []string {
	return []string{ProfileOnCPU, ProfileOffCPU, ProfileGoCPU, ProfileGoBlock, ProfileGoMutex, ProfileAllocs, ProfileHeap, ProfileGoroutine}
}

// ProfileValue returns the name of a kind's value in pprof's format.
func ProfileValue(kind string) string {
	switch kind {
	case ProfileOnCPU, ProfileGoCPU:
		return "cpu"
	case ProfileOffCPU, ProfileGoBlock, ProfileGoMutex:
		return "delay"
	case ProfileAllocs:
		return "alloc_space"
	case ProfileHeap:
		return "inuse_space"
	}
	return kind
}

// ProfileFile returns the name of the attachment that holds a kind.
func ProfileFile(kind string) string { return kind + ".pprof.gz" }

// Profiling is what --profile adds to a run: profiles of all of the server's processes, taken in
// every other stretch of the window.
type Profiling struct {
	// Blocks are the stretches, in time order.
	Blocks []ProfilingBlock `json:"blocks"`
	// Cost of the profiles; nil if the blocks do not show it.
	Cost     *ProfileCost `json:"cost,omitempty"`
	Profiles []ProfileOf  `json:"profiles"`
	// GC and Scheduler are from Go's runtime.
	GC        *GoGC        `json:"gc,omitempty"`
	Scheduler *GoScheduler `json:"scheduler,omitempty"`
}

// ProfilingBlock is one stretch of the window.
type ProfilingBlock struct {
	// FromNs and ToNs count from the opening of the window.
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"`
	// Profiled: profiles were taken in this block.
	Profiled bool `json:"profiled"`
	// Requests completed and the server's CPU time per request, from the series rows within the
	// block; 0 if there are none.
	Requests        float64 `json:"requests,omitempty"`
	CPUNsPerRequest float64 `json:"cpu_ns_per_request,omitempty"` // of the server
}

// ProfileCost compares the server's CPU time per request with and without profiles, in
// neighbouring blocks.
type ProfileCost struct {
	// Pairs of blocks, and how many an interval needs.
	Pairs     int     `json:"pairs"`
	Needed    int     `json:"needed"`     // pairs that an interval needs
	WithNs    float64 `json:"with_ns"`    // medians over the blocks
	WithoutNs float64 `json:"without_ns"` // of those without
	// Relative is with/without - 1.
	Relative Estimate `json:"relative"`
}

// ProfileOf is one kind of profile, of all processes together.
type ProfileOf struct {
	Kind string `json:"kind"`
	// Unit is "nanoseconds", "bytes" or "count".
	Unit  string `json:"unit"`
	Total int64  `json:"total"` // of all processes, without waits of threads that have nothing to do
	// SeenNs is the observed time if it is only a part of the blocks: for off-CPU waits, the
	// bursts.
	SeenNs int64 `json:"seen_ns,omitempty"`
	// Processes profiled, at most 64, with the share of each.
	Processes []ProcessPart `json:"processes,omitempty"`
	// Functions has the 60 with the largest Self, in descending order, then the 20 of the others
	// with the largest Total. Waits count for the runtime's caller that waits, everything else
	// for the innermost function.
	Functions []ProfileFunction `json:"functions"`
	// Whole: Functions is complete.
	Whole bool `json:"whole,omitempty"`
	// File is the name of the attachment with the stacks, in pprof's format.
	File string `json:"file,omitempty"`
}

// ProcessPart is one process's part of a profile.
type ProcessPart struct {
	Process string `json:"process"`
	Value   int64  `json:"value"`
}

// ProfileFunction is one function of a profile.
type ProfileFunction struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // where most of it is
	// Through is the runtime function that it waits in.
	Through string `json:"through,omitempty"`
	// Self is its own value, Total includes what it calls.
	Self  int64 `json:"self"`
	Total int64 `json:"total"`
	// Blocks has Self for each profiled block of the run, in order.
	Blocks []int64 `json:"blocks,omitempty"`
}

// GoGC is what Go's garbage collector did in the window, in all processes.
type GoGC struct {
	Processes   int   `json:"processes"`
	Collections int64 `json:"collections"`
	// Pauses known, the last 256 of each process, and their sum.
	Pauses  int64 `json:"pauses"`
	PauseNs int64 `json:"pause_ns"` // their sum
	P50Ns   int64 `json:"p50_ns"`
	MaxNs   int64 `json:"max_ns"`
	// CPUShare of all CPU time since the processes started; of several, the largest.
	CPUShare float64 `json:"cpu_share"`
}

// GoScheduler is how long runnable goroutines waited for a thread, from an execution trace after
// the last block.
type GoScheduler struct {
	TraceNs int64 `json:"trace_ns"` // length of the execution trace
	Waits   int64 `json:"waits"`    // of goroutines that could run, for a thread
	P50Ns   int64 `json:"p50_ns"`
	P99Ns   int64 `json:"p99_ns"`
	MaxNs   int64 `json:"max_ns"`
}

// Of returns the profile of a kind, or nil.
func (p *Profiling) Of(kind string) *ProfileOf {
	if p == nil {
		return nil
	}
	for i := range p.Profiles {
		if p.Profiles[i].Kind == kind {
			return &p.Profiles[i]
		}
	}
	return nil
}

// RequestProfile is one kind of profile, per request of a run.
type RequestProfile struct {
	Kind      string            `json:"kind"`
	Unit      string            `json:"unit"`
	Functions []RequestFunction `json:"functions"` // at most 30
}

// RequestFunction is what a request costs in one function.
type RequestFunction struct {
	Name string  `json:"name"`
	File string  `json:"file,omitempty"`
	Line int     `json:"line,omitempty"`
	Each float64 `json:"each"` // what a request costs in it
}

// ProfileDifference compares what a kind of profile costs per request on two sides.
type ProfileDifference struct {
	Kind string `json:"kind"`
	Unit string `json:"unit"` // per request
	// BlocksA and BlocksB are the number of blocks, or runs, of each side.
	BlocksA int `json:"blocks_a"`
	BlocksB int `json:"blocks_b"`
	// A and B are the cost per request over all functions.
	A float64 `json:"a"`
	B float64 `json:"b"`
	// InTurns: the two sides were measured alternately; otherwise they may differ by
	// chance.
	InTurns bool `json:"in_turns"`
	// Functions with the largest differences, at most 20: first the ones that became more expensive, then the
	// ones that became cheaper, then the others.
	Functions []FunctionDifference `json:"functions"`
}

// Decisions of a FunctionDifference.
const (
	Dearer  = "dearer"
	Cheaper = "cheaper"
	Noise   = "noise"
)

// FunctionDifference is one function on two sides, per request.
type FunctionDifference struct {
	Name string  `json:"name"`
	File string  `json:"file,omitempty"`
	Line int     `json:"line,omitempty"`
	A    float64 `json:"a"` // what a request costs in it
	B    float64 `json:"b"`
	// Low and High bound B - A, if there are enough blocks.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Decision is Dearer, Cheaper, or Noise: indistinguishable from it.
	Decision string `json:"decision"`
}
