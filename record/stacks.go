package record

// Stacks sum up what the server's processes ran, by stacks that the kernel took
// during the window. They need no help of the server, in whatever language it is.
type Stacks struct {
	// Host that they were taken on.
	Host string `json:"host,omitempty"`
	// Processes whose stacks these are, at most 32.
	Processes []StackProcess `json:"processes"`
	CPU       *CPUStacks     `json:"cpu,omitempty"`
	// File in the run's directory that holds the stacks themselves, the most
	// frequent ones: "thread;outermost;…;innermost samples" a line, as flame
	// graphs are drawn from. "" none.
	File string `json:"file,omitempty"`
	// Missing says in words what could not be named or sampled.
	Missing []string `json:"missing,omitempty"`
}

// StackProcess is one of them.
type StackProcess struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	// Runtime is "go", "java", "python", "node", "php", "ruby", "dotnet", "erlang",
	// "perl" or "native"; "" where it may not be read.
	Runtime string `json:"runtime,omitempty"`
}

// CPUStacks are samples of what ran.
type CPUStacks struct {
	// Method says what was sampled, Hz how often each CPU.
	Method     string `json:"method"`
	Hz         int    `json:"hz"`
	DurationNs int64  `json:"duration_ns"`
	// Samples of the server's processes; each stands for 1/Hz seconds of CPU.
	Samples int `json:"samples"`
	// Lost samples, of whatever ran: the rings were full.
	Lost uint64 `json:"lost,omitempty"`
	// CostNs is the CPU time of the reader; Events the descriptors it took.
	CostNs int64 `json:"cost_ns"`
	Events int   `json:"events"`
	// KernelShare is the share of the samples that were within the kernel.
	KernelShare float64 `json:"kernel_share"`
	// Packages and Functions with the most, at most 20 each; shares are of Samples.
	Packages  []StackPackage  `json:"packages"`
	Functions []StackFunction `json:"functions"`
}

// StackPackage is the CPU that is spent on behalf of one package, library or part
// of the kernel. A sample belongs to the innermost frame that is not plumbing
// (allocation, copying, reflection, the interpreter): what the runtime does for
// encoding/json is encoding/json's.
type StackPackage struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
	// Under is the share of the samples that have the package anywhere.
	Under float64 `json:"under"`
	// Entry is the function of the package that is called into most of this, and
	// Caller who calls it, of the server's own code, with the line of the call.
	Entry  string `json:"entry,omitempty"`
	Caller string `json:"caller,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
}

// StackFunction is one function.
type StackFunction struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // where most samples were
	// Self is the share of the samples with this function innermost, Total of
	// those that have it anywhere.
	Self  float64 `json:"self"`
	Total float64 `json:"total"`
}
