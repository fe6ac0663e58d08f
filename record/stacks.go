package record

// Stacks summarise what the server's processes ran, by stacks sampled in the kernel during the
// window. They work for any language, without the server's cooperation.
type Stacks struct {
	// Host they were sampled on.
	Host string `json:"host,omitempty"`
	// Processes with these stacks, at most 32.
	Processes []StackProcess `json:"processes"`
	CPU       *CPUStacks     `json:"cpu,omitempty"`
	OffCPU    *OffCPUStacks  `json:"off_cpu,omitempty"`
	// Peers are the servers on this host that the server is connected to.
	Peers []PeerStacks `json:"peers,omitempty"`
	// Missing says what could not be named or sampled.
	Missing []string `json:"missing,omitempty"`
}

// StackProcess is one of them.
type StackProcess struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
	// Runtime is "go", "java", "python", "node", "php", "ruby", "dotnet", "erlang", "perl" or
	// "native"; "" if unreadable.
	Runtime string `json:"runtime,omitempty"`
}

// PeerStacks is what another server, such as a database, ran and waited for, from the same
// samples and bursts as the server's own.
type PeerStacks struct {
	// PID of its outermost process; its children of the same program are included.
	PID     int    `json:"pid"`
	Comm    string `json:"comm"`
	Runtime string `json:"runtime,omitempty"`
	// Samples of its CPU, by package.
	Samples  int            `json:"samples"`
	Packages []StackPackage `json:"packages"`
	// Waits of its threads. Waiting for the server's next query is idle.
	Waits []StackWait `json:"waits"`
}

// CPUStacks are samples of what ran.
type CPUStacks struct {
	// Method says what was sampled, Hz how often each CPU.
	Method     string `json:"method"`
	Hz         int    `json:"hz"`
	DurationNs int64  `json:"duration_ns"` // of the sampling
	// Samples of the server's processes; each represents 1/Hz seconds of CPU.
	Samples int `json:"samples"`
	// Lost samples, of any process: the rings were full.
	Lost uint64 `json:"lost,omitempty"`
	// CostNs is the reader's CPU time; Events, the file descriptors it used.
	CostNs int64 `json:"cost_ns"`
	Events int   `json:"events"`
	// KernelShare is the share of the samples in the kernel.
	KernelShare float64 `json:"kernel_share"`
	// File is the name of the attachment with the 200 most frequent stacks, one per line:
	// "thread;outermost;…;innermost samples", the input format of flame graphs; "" if none.
	File string `json:"file,omitempty"`
	// Packages and Functions have the largest, at most 20 each; shares are of Samples.
	Packages  []StackPackage  `json:"packages"`
	Functions []StackFunction `json:"functions"`
}

// StackPackage is the CPU spent on behalf of one package, library or part of the kernel. A sample
// belongs to the innermost frame that is not plumbing (allocation, copying, reflection, the
// interpreter): what the runtime does for encoding/json counts as encoding/json's.
type StackPackage struct {
	Name  string  `json:"name"`  // package, library, kernel or garbage collector
	Share float64 `json:"share"` // of the samples, by the innermost frame that is not plumbing
	// Under is the share of the samples with the package anywhere in the stack.
	Under float64 `json:"under"`
	// Entry is the package's function through which most of this is called, and Caller the
	// function of the server's own code that calls it, with the line of the call.
	Entry  string `json:"entry,omitempty"`
	Caller string `json:"caller,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
}

// StackFunction is one function.
type StackFunction struct {
	Name    string `json:"name"`
	Package string `json:"package"`
	File    string `json:"file,omitempty"` // where most of its samples were
	Line    int    `json:"line,omitempty"` // where most samples were
	// Self is the share of the samples with this function innermost, Total the share with it
	// anywhere.
	Self  float64 `json:"self"`
	Total float64 `json:"total"`
}

// OffCPUStacks are what the server's threads waited for while off-CPU, from the scheduler's
// context switches, in bursts.
type OffCPUStacks struct {
	// Method says what was observed.
	Method string `json:"method"`
	// Bursts is their number, BurstNs their total length.
	Bursts  int   `json:"bursts"`
	BurstNs int64 `json:"burst_ns"`
	// ThreadNs is the time of all threads within the bursts; SeenNs, the off-CPU part of it with
	// a known wait; RunnableNs, the part of that in which they were runnable.
	ThreadNs   int64 `json:"thread_ns"`
	SeenNs     int64 `json:"seen_ns"`
	RunnableNs int64 `json:"runnable_ns"`
	// Switches counted.
	Switches int64 `json:"switches"`
	// CostNs is the reader's CPU time, KernelNs the kernel program's, which ran on
	// whichever CPU switched, mostly at the server's expense.
	CostNs   int64 `json:"cost_ns"`
	KernelNs int64 `json:"kernel_ns"`
	// File as in CPUStacks; its values are microseconds.
	File string `json:"file,omitempty"`
	// Waits, at most 20: the informative ones first, each group by descending time.
	Waits []StackWait `json:"waits"`
}

// What a thread waits for, in StackWait.Reason.
const (
	WaitCPU             = "cpu"              // runnable, while another thread ran
	WaitLock            = "lock"             // a mutex
	WaitInterpreterLock = "interpreter lock" // the one lock of a Python or Ruby process
	WaitCondition       = "condition"        // to be signaled that there is work
	WaitEvents          = "events"           // epoll, poll, io_uring
	WaitPoll            = "poll"             // never in a record: it becomes events or receive
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

// StackWaitsMost is how many waits are stored per server; a list of that length may be truncated.
const StackWaitsMost = 20

// StackWait is one thing that threads wait for.
type StackWait struct {
	Reason string `json:"reason"` // cpu (it could run), lock, interpreter lock, condition, events, receive, send, connect, accept, sync, disk and others
	// Idle: the wait is uninformative, because threads without work wait like this too.
	Idle bool `json:"idle,omitempty"`
	// Ns is the time of all its threads within the bursts; Threads, how many were in it on
	// average; Distinct, how many different ones; Times, how often.
	Ns       int64   `json:"ns"`
	Threads  float64 `json:"threads"`
	Distinct int     `json:"distinct"`
	Times    int64   `json:"times"`
	// Thread is the name that these threads share, with # for digits.
	Thread string `json:"thread"`
	PID    int    `json:"pid"`
	// Function of the server that waits, by the innermost frame that is not plumbing, with its
	// location; Through is the runtime function that it waits in.
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Through  string `json:"through,omitempty"`
	// Kernel is the kernel function that waits; for files, the system call.
	Kernel string `json:"kernel,omitempty"`
	// Object that it waits for: the peer's address, a file's path, a lock's variable. Device
	// holds the file.
	Object string `json:"object,omitempty"`
	Device string `json:"device,omitempty"`
	// Process at the other end, on this host.
	Process    string `json:"process,omitempty"`
	ProcessPID int    `json:"process_pid,omitempty"`
}
