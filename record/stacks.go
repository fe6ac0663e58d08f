package record

// Stacks sum up what the server's processes ran, by stacks that the kernel took
// during the window. They need no help of the server, in whatever language it is.
type Stacks struct {
	// Host that they were taken on.
	Host string `json:"host,omitempty"`
	// Processes whose stacks these are, at most 32.
	Processes []StackProcess `json:"processes"`
	CPU       *CPUStacks     `json:"cpu,omitempty"`
	OffCPU    *OffCPUStacks  `json:"off_cpu,omitempty"`
	// Peers are the servers on this host that the server is connected to.
	Peers []PeerStacks `json:"peers,omitempty"`
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

// PeerStacks is what another server ran and waited for, a database perhaps, by the
// same samples and in the same bursts as the server's own.
type PeerStacks struct {
	// PID of its outermost process; its children of the same program are counted in.
	PID     int    `json:"pid"`
	Comm    string `json:"comm"`
	Runtime string `json:"runtime,omitempty"`
	// Samples of its CPU, and what they were of.
	Samples  int            `json:"samples"`
	Packages []StackPackage `json:"packages"`
	// Waits of its threads. To wait for the server's next question is idle.
	Waits []StackWait `json:"waits"`
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
	// File is the name of the attachment that holds the stacks themselves, the 200 most
	// frequent: "thread;outermost;…;innermost samples" a line, as flame graphs are
	// drawn from. "" none.
	File string `json:"file,omitempty"`
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

// OffCPUStacks are what the server's threads waited for while they were not on a
// CPU, by the scheduler's switches, in bursts.
type OffCPUStacks struct {
	// Method says what was looked at.
	Method string `json:"method"`
	// Bursts of BurstNs in all.
	Bursts  int   `json:"bursts"`
	BurstNs int64 `json:"burst_ns"`
	// ThreadNs is the time of all threads within the bursts; SeenNs the part of it
	// off the CPU for which a wait is known, RunnableNs the part of that in which
	// they could have run.
	ThreadNs   int64 `json:"thread_ns"`
	SeenNs     int64 `json:"seen_ns"`
	RunnableNs int64 `json:"runnable_ns"`
	// Switches that were counted.
	Switches int64 `json:"switches"`
	// CostNs is the CPU time of the reader, KernelNs that of the program in the
	// kernel, which ran on whatever CPU switched, mostly at the server's cost.
	CostNs   int64 `json:"cost_ns"`
	KernelNs int64 `json:"kernel_ns"`
	// File as in CPUStacks; its values are microseconds.
	File string `json:"file,omitempty"`
	// Waits, at most 20: those that tell first, each by descending time.
	Waits []StackWait `json:"waits"`
}

// What a thread waits for, in StackWait.Reason.
const (
	WaitCPU             = "cpu"              // it could run, and another one did
	WaitLock            = "lock"             // a mutex
	WaitInterpreterLock = "interpreter lock" // the one lock of a Python or Ruby process
	WaitCondition       = "condition"        // to be told that there is work
	WaitEvents          = "events"           // epoll, poll, io_uring
	WaitPoll            = "poll"             // not in a record: it is events, or receive
	WaitReceive         = "receive"          // data from a socket
	WaitSend            = "send"             // room in a socket
	WaitConnect         = "connect"
	WaitAccept          = "accept"
	WaitSync            = "sync" // fsync and the like
	WaitDisk            = "disk" // reading or writing a file
	WaitSwap            = "swap" // memory that was swapped out
	WaitFileLock        = "file lock"
	WaitKernelLock      = "kernel lock" // of its memory map, of a directory
	WaitNetworkFile     = "network file system"
	WaitPipe            = "pipe"      // to read
	WaitPipeFull        = "pipe full" // to write
	WaitSleep           = "sleep"
	WaitChild           = "child"
	WaitSignal          = "signal"
	WaitStopped         = "stopped"
	WaitOther           = "other"
)

// StackWaitsMost is how many waits are kept of one server; as many may be not all.
const StackWaitsMost = 20

// StackWait is one thing that threads wait for.
type StackWait struct {
	Reason string `json:"reason"`
	// Idle: such a wait tells nothing, for threads with nothing to do wait so too.
	Idle bool `json:"idle,omitempty"`
	// Ns is the time of all its threads within the bursts; Threads is how many were in
	// it on average, Distinct how many different ones, Times how often.
	Ns       int64   `json:"ns"`
	Threads  float64 `json:"threads"`
	Distinct int     `json:"distinct"`
	Times    int64   `json:"times"`
	// Thread is the name that these threads share, with # for numbers.
	Thread string `json:"thread"`
	PID    int    `json:"pid"`
	// Function of the server that waits, by the innermost frame that is not plumbing,
	// with its place; Through is the function of the runtime that it waits in.
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Through  string `json:"through,omitempty"`
	// Kernel is the function in the kernel that waits; of files, the system call.
	Kernel string `json:"kernel,omitempty"`
	// Object that it waits for: the address of the other end, the path of a file, the
	// variable that a lock is. Device holds the file.
	Object string `json:"object,omitempty"`
	Device string `json:"device,omitempty"`
	// Process at the other end, on this host.
	Process    string `json:"process,omitempty"`
	ProcessPID int    `json:"process_pid,omitempty"`
}
