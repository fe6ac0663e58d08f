package record

// Kinds of a ProfileOf, in the order in which a page shows them.
const (
	ProfileOnCPU     = "on-cpu"    // the kernel's samples of what ran, any language
	ProfileOffCPU    = "off-cpu"   // what threads waited for, any language
	ProfileGoCPU     = "go-cpu"    // Go's own CPU profile
	ProfileGoBlock   = "block"     // what goroutines waited for
	ProfileGoMutex   = "mutex"     // locks that others waited for
	ProfileAllocs    = "allocs"    // bytes allocated
	ProfileHeap      = "heap"      // bytes in use
	ProfileGoroutine = "goroutine" // where goroutines are
)

// ProfileKinds are all of them, in the order of above.
func ProfileKinds() []string {
	return []string{ProfileOnCPU, ProfileOffCPU, ProfileGoCPU, ProfileGoBlock, ProfileGoMutex, ProfileAllocs, ProfileHeap, ProfileGoroutine}
}

// ProfileValue is the name of a kind's value in pprof's format.
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

// ProfileFile is the name of the attachment that holds a kind.
func ProfileFile(kind string) string { return kind + ".pprof.gz" }

// Profiling is what --profile adds to a run: profiles of all of the server's
// processes, in every other stretch of the window.
type Profiling struct {
	// Blocks are the stretches, in the order of time.
	Blocks []ProfilingBlock `json:"blocks"`
	// Cost of the profiles; none where the blocks do not tell it.
	Cost     *ProfileCost `json:"cost,omitempty"`
	Profiles []ProfileOf  `json:"profiles"`
	// GC and Scheduler are of Go's runtime.
	GC        *GoGC        `json:"gc,omitempty"`
	Scheduler *GoScheduler `json:"scheduler,omitempty"`
}

// ProfilingBlock is one stretch of the window.
type ProfilingBlock struct {
	// FromNs and ToNs since the window opened.
	FromNs int64 `json:"from_ns"`
	ToNs   int64 `json:"to_ns"`
	// Profiled tells that profiles were taken in it.
	Profiled bool `json:"profiled"`
	// Requests completed in it and CPU time of the server a request, by the rows of
	// the series that lie within; 0 where there are none.
	Requests        float64 `json:"requests,omitempty"`
	CPUNsPerRequest float64 `json:"cpu_ns_per_request,omitempty"`
}

// ProfileCost is the server's CPU time a request with profiles and without, in
// neighbouring blocks.
type ProfileCost struct {
	// Pairs of blocks, and how many an interval needs.
	Pairs     int     `json:"pairs"`
	Needed    int     `json:"needed"`
	WithNs    float64 `json:"with_ns"` // medians over the blocks
	WithoutNs float64 `json:"without_ns"`
	// Relative is with/without - 1.
	Relative Estimate `json:"relative"`
}

// ProfileOf is one kind of profile, of all processes together.
type ProfileOf struct {
	Kind string `json:"kind"`
	// Unit is "nanoseconds", "bytes" or "count".
	Unit  string `json:"unit"`
	Total int64  `json:"total"`
	// SeenNs is the time that was looked at, where that is only a part of the blocks:
	// of off-CPU waits the bursts.
	SeenNs int64 `json:"seen_ns,omitempty"`
	// Processes it is of, at most 64, with the part of each.
	Processes []ProcessPart `json:"processes,omitempty"`
	// Functions: the 60 largest on their own, the largest first, then the 20 of the others
	// that are largest with what they call. Waits count for the callers of the runtime
	// that wait, all else for the innermost.
	Functions []ProfileFunction `json:"functions"`
	// Whole tells that Functions has all there are.
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
	Line int    `json:"line,omitempty"`
	// Through is the runtime's function that it waits in.
	Through string `json:"through,omitempty"`
	// Self is its own, Total with what it calls.
	Self  int64 `json:"self"`
	Total int64 `json:"total"`
	// Blocks has Self of each block of the run that is profiled, in their order.
	Blocks []int64 `json:"blocks,omitempty"`
}

// GoGC is what Go's garbage collector did in the window, in all processes.
type GoGC struct {
	Processes   int   `json:"processes"`
	Collections int64 `json:"collections"`
	// Pauses that are known, the last 256 of each process, and their sum.
	Pauses  int64 `json:"pauses"`
	PauseNs int64 `json:"pause_ns"`
	P50Ns   int64 `json:"p50_ns"`
	MaxNs   int64 `json:"max_ns"`
	// CPUShare of all CPU time since the processes started, the largest.
	CPUShare float64 `json:"cpu_share"`
}

// GoScheduler is how long goroutines that could run waited for a thread, by an
// execution trace after the last block.
type GoScheduler struct {
	TraceNs int64 `json:"trace_ns"`
	Waits   int64 `json:"waits"`
	P50Ns   int64 `json:"p50_ns"`
	P99Ns   int64 `json:"p99_ns"`
	MaxNs   int64 `json:"max_ns"`
}

// Of is the profile of a kind, or nil.
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

// RequestProfile is what one kind of profile comes to for a request of a run.
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
	Each float64 `json:"each"`
}

// ProfileDifference is what a kind of profile costs a request on two sides.
type ProfileDifference struct {
	Kind string `json:"kind"`
	Unit string `json:"unit"` // of one request
	// BlocksA and BlocksB are how many blocks, or runs, of each side there are.
	BlocksA int `json:"blocks_a"`
	BlocksB int `json:"blocks_b"`
	// A and B are what a request costs in all functions.
	A float64 `json:"a"`
	B float64 `json:"b"`
	// InTurns tells that the two sides were measured in turns; else they may differ
	// by the occasion alone.
	InTurns bool `json:"in_turns"`
	// Functions whose figures differ most, at most 20: those that became dearer, then
	// those that became cheaper, then the others.
	Functions []FunctionDifference `json:"functions"`
}

// Decisions of a FunctionDifference.
const (
	Dearer  = "dearer"
	Cheaper = "cheaper"
	Noise   = "noise"
)

// FunctionDifference is one function on two sides, for one request.
type FunctionDifference struct {
	Name string  `json:"name"`
	File string  `json:"file,omitempty"`
	Line int     `json:"line,omitempty"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
	// Low and High bound B - A, where there are enough blocks.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Decision is Dearer, Cheaper, or Noise: not told from it.
	Decision string `json:"decision"`
}
