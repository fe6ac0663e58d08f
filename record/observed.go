package record

import (
	"encoding/json"
	"fmt"
)

// This file defines what package observe writes about a host during a run: one
// plain struct per kind of row, one row per line of the record. Shared conventions:
//
//   - Times are nanoseconds on the run's clock; durations are nanoseconds.
//   - A counter is the difference over the interval (TNs-WidthNs, TNs], never the kernel's
//     absolute value, so the first sample lacks it. A gauge (a queue, a memory size, a state)
//     is the value at TNs.
//   - A count left out of the JSON is zero. What could not be read is not
//     zero: it is a NotMeasured, or the field's documented "unknown" value.
//   - Intervals of different kinds have different widths: each sampler has its
//     own rate, and an expensive one slows itself down to stay within its budget.

// Kinds of observed rows, the "kind" of their JSON.
const (
	KindCPU      = "cpu"
	KindSubject  = "subject"
	KindProcess  = "process"
	KindSockets  = "sockets"
	KindListener = "listener"
	KindTCPInfo  = "tcp_info"
	KindTimes    = "times"
	KindPeers    = "peers"

	KindNeighbours = "neighbours"
	KindTCP        = "tcp"
	KindNetDev     = "netdev"
	KindSoftnet    = "softnet"
	KindSoftirq    = "softirq"
	KindIRQ        = "irq"
	KindNIC        = "nic"
	KindPSI        = "psi"
	KindDisk       = "disk"
	KindTitles     = "titles"
	KindThrottle   = "throttle"
	KindFreq       = "freq"
	KindObserver   = "observer"
)

// Sides of a run whose generator and server are on one host in separate network namespaces. A row
// without a side is about the only namespace observed.
const (
	SideGenerator = "generator"
	SideServer    = "server"
)

// TicksPerSecond is USER_HZ, the unit of /proc/stat and /proc/PID/stat on
// every architecture that Go runs on: one tick is 10 ms.
const TicksPerSecond = 100

// ObservedRow is any row of this file, by pointer.
type ObservedRow interface {
	// Observed returns the part that all rows share. It points into the row.
	Observed() *ObservedHead
}

// ObservedHead begins every observed row.
type ObservedHead struct {
	Kind    string `json:"kind"`
	Host    string `json:"host"`
	TNs     int64  `json:"t_ns"`           // end of the interval, on the run's clock
	WidthNs int64  `json:"width_ns"`       // true width of the interval; 0 in rows of gauges only
	Late    bool   `json:"late,omitempty"` // wider than 1.5 times the planned width: the sampler did not get the CPU in time
}

// Observed returns the head itself.
func (h *ObservedHead) Observed() *ObservedHead { return h }

// NotMeasured names something the record has no data on, so that a rule that needs it says
// "inconclusive" instead of guessing.
type NotMeasured struct {
	What string `json:"what"`           // the source: "psi", "sockets", "process 4711: open files"
	Why  string `json:"why"`            // in words, with the error and the remedy where there is one
	TNs  int64  `json:"t_ns,omitempty"` // when it was lost during the run; 0 means from the start
	Host string `json:"host,omitempty"` // where
	Part bool   `json:"part,omitempty"` // the source is measured except for what is named
}

// GeneratorHeadroom is the What of a run with unknown generator headroom.
const GeneratorHeadroom = "generator headroom"

// OtherAddresses is the What of a run against a name with several addresses, one of which was
// used.
const OtherAddresses = "the name's other addresses"

// OtherServers is the What of a run that was spread over the addresses of a name.
const OtherServers = "the servers at the name's other addresses"

// BehindProxy is the What of a run through a proxy, which is taken for the server.
const BehindProxy = "what is behind the proxy"

// CPURow is /proc/stat over one interval.
type CPURow struct {
	ObservedHead
	Cores           []CoreTicks `json:"cores"` // by ascending CPU number; a CPU that is offline, or came or went within the interval, is missing
	ContextSwitches uint64      `json:"context_switches"`
	Forks           uint64      `json:"forks"`          // processes and threads created
	Running         int         `json:"running"`        // gauge: runnable now, including the observer
	Came            []int       `json:"came,omitempty"` // CPUs that appeared within the interval
	Went            []int       `json:"went,omitempty"` // CPUs that vanished within the interval
}

// CoreTicks is one CPU's time by category, in ticks of 10 ms. User includes guest time (Nice
// includes guest nice): kernel/sched/cputime.c, account_guest_time. The other eight add up to the
// elapsed time.
//
// At 10 Hz an interval has ten ticks, and each category is truncated to whole ticks, so one row
// is coarse; sums over rows are not, since nothing is lost between rows.
type CoreTicks struct {
	CPU       int   `json:"cpu"`
	User      int64 `json:"user,omitempty"`
	Nice      int64 `json:"nice,omitempty"`
	System    int64 `json:"system,omitempty"`
	Idle      int64 `json:"idle,omitempty"`
	IOWait    int64 `json:"iowait,omitempty"` // idle with a disk request outstanding
	IRQ       int64 `json:"irq,omitempty"`
	SoftIRQ   int64 `json:"softirq,omitempty"`
	Steal     int64 `json:"steal,omitempty"`      // taken by the hypervisor
	Guest     int64 `json:"guest,omitempty"`      // contained in User
	GuestNice int64 `json:"guest_nice,omitempty"` // contained in Nice

	// Missing is elapsed minus accounted, in ticks; it may be negative. Small
	// values are rounding.
	Missing int64 `json:"missing,omitempty"`
	// Bad says why this row is unusable: a category went backwards, or the categories do not add
	// up to the elapsed time. The numbers stay as read.
	Bad string `json:"bad,omitempty"`
}

// Accounted returns the sum of the eight exclusive categories, in ticks.
func (c *CoreTicks) Accounted() int64 {
	return c.User + c.Nice + c.System + c.Idle + c.IOWait + c.IRQ + c.SoftIRQ + c.Steal
}

// Busy returns the time the CPU did work on this host, in ticks: everything but idle, iowait
// (idle with a disk request outstanding) and steal (work for another guest).
func (c *CoreTicks) Busy() int64 {
	return c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ
}

// What happened to a process, in SubjectRow.Event.
const (
	SubjectFound     = "found"     // part of the subject from now on
	SubjectGone      = "gone"      // vanished: its last interval is incomplete
	SubjectRestarted = "restarted" // the PID now belongs to a new process
)

// Roles of a process.
const (
	RoleSubject   = "subject"   // the server
	RoleGenerator = "generator" // the load generator
	RolePeer      = "peer"      // a server on the same host that the server is connected to
)

// SubjectRow is an observed process: written when it is found, when it vanishes, and when its PID
// returns with another start time.
type SubjectRow struct {
	ObservedHead
	Event       string   `json:"event"` // found, gone or restarted
	Role        string   `json:"role"`  // subject, generator, or peer: a server on the same host that the subject is connected to
	PID         int      `json:"pid"`
	ParentPID   int      `json:"ppid,omitempty"`
	StartTicks  uint64   `json:"start_ticks,omitempty"`  // since boot, ticks of 10 ms: with PID, the process's identity
	Comm        string   `json:"comm,omitempty"`         // its name
	Exe         string   `json:"exe,omitempty"`          // "" if unreadable
	CPUsAllowed string   `json:"cpus_allowed,omitempty"` // as in Cpus_allowed_list, "0-3,8"
	Cgroup      string   `json:"cgroup,omitempty"`       // path within the hierarchy of the cpu controller
	Listeners   []uint64 `json:"listeners,omitempty"`    // inodes of the listening sockets it holds
	FilesMax    int64    `json:"files_max,omitempty"`    // open files allowed, the soft limit (RLIMIT_NOFILE); 0 unknown, -1 none
	How         string   `json:"how,omitempty"`          // how it was found: "listens on 127.0.0.1:8080", "child of 4711", "given"
}

// ProcessRow is one observed process over one interval.
type ProcessRow struct {
	ObservedHead
	Role       string `json:"role"` // as in the row subject
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
	Comm       string `json:"comm"`

	// CPUNs is the process's CPU clock: exact, including threads that exited within the interval.
	// UserNs and SystemNs come from ticks: multiples of 10 ms, meaningful only summed over many
	// rows.
	CPUNs    int64 `json:"cpu_ns"`
	UserNs   int64 `json:"user_ns"`
	SystemNs int64 `json:"system_ns"`

	// RunNs and QueueNs are sums over the threads read (/proc/PID/task/TID/schedstat, ns): time
	// on a CPU, and time runnable without one. They lack threads that exited within the interval,
	// which CPUNs includes. -1: the kernel does not keep them.
	RunNs   int64 `json:"run_ns"`
	QueueNs int64 `json:"queue_ns"`

	Threads      int         `json:"threads"`                 // gauge
	ThreadsRead  int         `json:"threads_read"`            // of these; fewer if there are more than the sampler's limit
	Busiest      []ThreadUse `json:"busiest,omitempty"`       // at most 8, by descending RunNs; idle threads are left out
	States       ThreadCount `json:"states,omitzero"`         // gauge over the threads read, only in samples that include it
	Waits        []WaitCount `json:"waits,omitempty"`         // gauge: where sleeping threads sleep, at most 16, only in samples that include it
	Voluntary    int64       `json:"voluntary"`               // context switches, sum over the threads; -1 in samples without them
	Involuntary  int64       `json:"involuntary"`             // the same; SwitchesNs is the interval of both
	SwitchesNs   int64       `json:"switches_ns,omitempty"`   // width of the interval of Voluntary and Involuntary
	ReadBytes    int64       `json:"read_bytes,omitempty"`    // from block devices (/proc/PID/io), over SwitchesNs; -1 if not permitted
	WrittenBytes int64       `json:"written_bytes,omitempty"` // to block devices, the same
	RSSBytes     int64       `json:"rss_bytes"`               // gauge
	OpenFiles    int         `json:"open_files,omitempty"`    // gauge; only in some samples before Linux 6.2; -1 if not permitted
}

// ThreadUse is one thread over the interval of its ProcessRow.
type ThreadUse struct {
	TID     int    `json:"tid"`
	Comm    string `json:"comm"`
	RunNs   int64  `json:"run_ns"`          // from schedstat, or from ticks of 10 ms if the kernel has none
	QueueNs int64  `json:"queue_ns"`        // -1 if the kernel has none
	State   string `json:"state,omitempty"` // letter of /proc/PID/stat at TNs; "" in samples without it
	Wchan   string `json:"wchan,omitempty"` // kernel function it sleeps in; "" running or unreadable
}

// ThreadCount counts threads by state at TNs.
type ThreadCount struct {
	Running  int `json:"running,omitempty"`  // R: on a CPU or waiting for one
	Sleeping int `json:"sleeping,omitempty"` // S, I
	Disk     int `json:"disk,omitempty"`     // D: uninterruptible
	Other    int `json:"other,omitempty"`    // T, t, Z, X, P
}

// WaitCount is how many threads of one name sleep in one kernel function.
type WaitCount struct {
	Wchan string `json:"wchan"` // where sleeping threads sleep
	// Comm is the threads' name with # for its digits ("exec-#"); "" means the process's name.
	Comm    string `json:"comm,omitempty"`
	Threads int    `json:"threads"`
}

// SocketsRow is where the bytes of the run's own connections wait, over the interval. Some
// connections were sampled at random moments, both ends of each within microseconds; the numbers
// are means over those moments, scaled up from the sampled connections to all. If Looks is 0, all
// sockets were listed once, at TNs, one after another under load. If the ends are in two network
// namespaces of one host, Client is from the generator's and Server from the server's.
type SocketsRow struct {
	ObservedHead
	Moments int       `json:"moments,omitempty"` // number of sampling moments
	Looks   int       `json:"looks,omitempty"`   // sockets sampled, over all moments and both ends
	Listed  Listing   `json:"listed,omitzero"`   // counts from a list of all connections, in rows with such a list
	Client  EndQueues `json:"client"`            // sockets with the target as remote end
	Server  EndQueues `json:"server"`            // sockets with the target's local port
	// ToServer and ToClient are the bytes in transit: written at one end, not yet in the kernel
	// at the other.
	ToServer Transit `json:"to_server,omitzero"`
	ToClient Transit `json:"to_client,omitzero"`
	CostNs   int64   `json:"cost_ns"` // CPU time of the reading, both ends
}

// Listing counts the connections in one list of all of them, not a sample. If both ends are on
// the host, it counts those that have both, which excludes those the generator has given up.
type Listing struct {
	Connections int `json:"connections"`          // in a list of all of them; 0: none was made for this row
	Unaccepted  int `json:"unaccepted,omitempty"` // of these, in the accept queue: no process holds them
}

// EndQueues sums one end of the connections. On unix sockets, unacked means not read by the peer,
// so one end's unacked bytes are the other's unread ones; on TCP, an unread byte is acknowledged.
type EndQueues struct {
	Sockets         int     `json:"sockets"`               // established, or the peer has closed
	Unaccepted      float64 `json:"unaccepted,omitempty"`  // of these, still in the accept queue: no process holds them
	Unread          float64 `json:"unread"`                // of these, with received bytes the program has not read
	UnreadBytes     float64 `json:"unread_bytes"`          //
	UnreadMaxBytes  int64   `json:"unread_max_bytes"`      // the fullest one seen
	Unacked         float64 `json:"unacked"`               // with written bytes not yet acknowledged: unsent or in flight
	UnackedBytes    float64 `json:"unacked_bytes"`         //
	UnackedMaxBytes int64   `json:"unacked_max_bytes"`     //
	Connecting      int     `json:"connecting,omitempty"`  // handshake in progress: not in Sockets
	PeerClosed      float64 `json:"peer_closed,omitempty"` // CLOSE_WAIT: contained in Sockets
}

// Transit is one direction of the connections sampled at both ends, by TCP's own byte
// counts at either end, which a delayed ACK cannot distort.
type Transit struct {
	Pairs       int     `json:"pairs"`                  // connections sampled at both ends; 0 if unknown
	Connections float64 `json:"connections"`            // with bytes in transit
	Bytes       float64 `json:"bytes"`                  //
	UnsentBytes float64 `json:"unsent_bytes,omitempty"` // of these, still held back by the sender: its window, or Nagle's algorithm
	// HeldBack are connections with less than a segment unsent although the congestion window allows
	// it, while an earlier segment is unacknowledged: Nagle's algorithm waits for an ACK.
	HeldBack float64 `json:"held_back,omitempty"`
}

// Scale converts the sums over the samples to means over all connections.
func (t *Transit) Scale(connections int) {
	if t.Pairs == 0 {
		return
	}
	each := float64(connections) / float64(t.Pairs)
	t.Connections *= each
	t.Bytes *= each
	t.UnsentBytes *= each
	t.HeldBack *= each
}

// TimesRow is where the requests of some connections were in one burst, by the kernel's own
// events at both ends. The burst is the row's interval; nothing is observed between bursts.
type TimesRow struct {
	ObservedHead
	Pipelined   bool    `json:"pipelined,omitempty"` // a connection may have several requests in flight
	Followed    float64 `json:"followed"`            // share of the connections that were followed
	Connections int     `json:"connections"`         // of these, with accounted requests
	Requests    int64   `json:"requests"`            // begun on them in the burst; pipelined: writes that sent some
	// KnownNs sums the accounted time over the connections. It may exceed their number times
	// WidthNs: if a connection was silent in a burst, that time counts in the row of the later
	// burst that shows where its request was.
	KnownNs int64       `json:"known_ns"`
	Places  []PlaceTime `json:"places"`            // all six, in path order
	Whole   int64       `json:"whole"`             // requests seen from start to end: the quantiles cover these
	Dropped int         `json:"dropped,omitempty"` // connections left out because their events contradicted each other
	Events  int64       `json:"events"`
	Lost    int64       `json:"lost,omitempty"`    // events dropped for lack of space; the burst ends before the first
	BPFNs   int64       `json:"bpf_ns"`            // CPU time of the programs in the kernel
	Guessed bool        `json:"guessed,omitempty"` // BPFNs is estimated from a burst in which it was measured
	CostNs  int64       `json:"cost_ns"`           // CPU time of attaching, reading and following, in the observer's thread
}

// Names of the places, in PlaceTime.Place.
const (
	PlaceToServer  = "network to server"
	PlaceAtServer  = "server receive queue"
	PlaceInServer  = "server"
	PlaceToClient  = "network to client"
	PlaceAtClient  = "generator receive queue"
	PlaceGenerator = "generator"
)

// PlaceTime is the time that requests spent at one place during a burst.
type PlaceTime struct {
	Place string `json:"place"` // network to server, server receive queue, server, network to client, generator receive queue or generator
	// Ns sums the time of all requests; over TimesRow.Requests it is the mean.
	// 0 in a pipelined row.
	Ns int64 `json:"ns"`
	// ByteNs, in a pipelined row, sums bytes times nanoseconds: of requests on their way to the
	// server, of responses on their way back and at the generator.
	ByteNs float64 `json:"byte_ns,omitempty"`
	// P50Ns and P99Ns are quantiles over the requests seen whole.
	P50Ns int64 `json:"p50_ns"`
	P99Ns int64 `json:"p99_ns"`
	// Hist is their histogram in package hist's binary form; base64 in JSON.
	Hist []byte `json:"hist,omitempty"`
}

// ListenerRow has the queues of the target's listening sockets at TNs.
type ListenerRow struct {
	ObservedHead
	Listeners []Listener `json:"listeners"`
	// Connections says how the target's established connections are distributed over processes,
	// only in rows that include it.
	Connections []ProcessConnections `json:"connections,omitempty"`
	Unowned     int                  `json:"unowned,omitempty"` // connections of processes that were not found
}

// Listener is one listening socket.
type Listener struct {
	Inode uint64 `json:"inode"`
	Addr  string `json:"addr"`
	Queue int    `json:"queue"`          // connections waiting to be accepted
	Max   int    `json:"max"`            // the queue's limit: one more than this overflows
	PIDs  []int  `json:"pids,omitempty"` // processes that hold it, as far as visible
}

// ProcessConnections counts one process's established connections.
type ProcessConnections struct {
	PID         int `json:"pid"` // only in rows that looked: who holds the connections
	Connections int `json:"connections"`
}

// TCPInfoRow aggregates TCP_INFO over the run's own connections, less often than SocketsRow and
// from the same namespaces.
type TCPInfoRow struct {
	ObservedHead
	Client EndTCPInfo `json:"client"`
	Server EndTCPInfo `json:"server"`
	CostNs int64      `json:"cost_ns"` // CPU time of the reading, both ends
}

// EndTCPInfo sums one end of the connections. The counters cover the sockets (Matched) that
// existed at both ends of the interval.
type EndTCPInfo struct {
	Sockets     int   `json:"sockets"`
	RTTp50Us    int64 `json:"rtt_p50_us"` // smoothed round-trip times, µs, over the sockets
	RTTp90Us    int64 `json:"rtt_p90_us"`
	RTTp99Us    int64 `json:"rtt_p99_us"`
	RTTMaxUs    int64 `json:"rtt_max_us"`
	RTTMinUs    int64 `json:"rtt_min_us"`      // smallest of the sockets' recent minima; 0 if none yet
	CwndMin     int64 `json:"cwnd_min"`        // smallest congestion window, segments
	UnackedSegs int64 `json:"unacked_segs"`    // in flight now, segments
	Matched     int   `json:"matched"`         //
	RetransSegs int64 `json:"retrans_segs"`    //
	AckedBytes  int64 `json:"acked_bytes"`     // sent and acknowledged
	RecvBytes   int64 `json:"recv_bytes"`      //
	SentSegs    int64 `json:"sent_segs"`       // including retransmissions and bare ACKs
	RecvSegs    int64 `json:"recv_segs"`       //
	BusyNs      int64 `json:"busy_ns"`         // time with data to send; of Matched × WidthNs
	RwndNs      int64 `json:"rwnd_ns"`         // of BusyNs, blocked by the receiver's window
	SndbufNs    int64 `json:"sndbuf_ns"`       // of BusyNs, blocked by the send buffer
	Short       int   `json:"short,omitempty"` // sockets with a TCP_INFO too short for the counters (an old kernel)
}

// PeersRow has the connections that the subject's processes keep to others: a database, a cache,
// another server. All fields are gauges. Connections to the subject are excluded, whatever port
// it listens on.
type PeersRow struct {
	ObservedHead
	Peers []Peer `json:"peers"` // by descending number of sockets, at most 16
	// More counts sockets to further addresses.
	More int `json:"more,omitempty"`
	// Cut: not all open files of the subject could be inspected, so there may be more sockets.
	Cut bool `json:"cut,omitempty"`
}

// Peer is one address that the subject is connected to.
type Peer struct {
	Addr    string `json:"addr"`    // address and port, or the path of a unix socket
	Sockets int    `json:"sockets"` // established, or the peer has closed
	Unread  int    `json:"unread"`  // of these, with received bytes the subject has not read
	Unacked int    `json:"unacked"` // with written bytes not yet acknowledged (unix: not yet read)
	// Awaiting counts those that received nothing since the last send (tcp_info: last_data_recv
	// is no later than last_data_sent), to a kernel tick, 1 to 10 ms; Quiet, those without
	// traffic either way for a second. -1: unknown for a unix socket.
	Awaiting   int `json:"awaiting"`
	Quiet      int `json:"quiet"`
	Connecting int `json:"connecting,omitempty"` // handshake in progress: not in Sockets
	// PID of the process at the other end if it is on this host: its program's outermost process.
	// It and its children have rows of role peer.
	PID int `json:"pid,omitempty"`
}

// NeighboursRow is the CPU that the host's other processes used over one interval, without the
// server and the generator. Times are multiples of 10 ms ticks.
type NeighboursRow struct {
	ObservedHead
	Neighbours []Neighbour `json:"neighbours"` // by descending CPU time, at most 8
	// MoreNs is the CPU time of all further ones. A process that started and exited within the
	// interval is in neither.
	MoreNs int64 `json:"more_ns,omitempty"`
}

// Neighbour is one such process.
type Neighbour struct {
	PID   int    `json:"pid"`
	Comm  string `json:"comm"`
	CPUNs int64  `json:"cpu_ns"` // of all its threads
	CPU   int    `json:"cpu"`    // that it last ran on; -1 if unknown, or with several threads
}

// TCPRow has the host's (namespace's) TCP counters over one interval: /proc/net/netstat and
// /proc/net/snmp. -1: this kernel has no such counter.
type TCPRow struct {
	ObservedHead
	Side            string `json:"side,omitempty"`   // the end that has this namespace; "" if both have one
	ListenOverflows int64  `json:"listen_overflows"` // accept queue full
	ListenDrops     int64  `json:"listen_drops"`     // overflows and other failures to accept a connection
	SyncookiesSent  int64  `json:"syncookies_sent"`
	ReqQFullDrop    int64  `json:"reqq_full_drop"`
	Timeouts        int64  `json:"timeouts"` // retransmission timers that fired
	BacklogDrop     int64  `json:"backlog_drop"`
	RcvQDrop        int64  `json:"rcvq_drop"`
	AbortOnMemory   int64  `json:"abort_on_memory"`
	AbortOnTimeout  int64  `json:"abort_on_timeout"`
	SynRetrans      int64  `json:"syn_retrans"`
	RetransSegs     int64  `json:"retrans_segs"`
	AttemptFails    int64  `json:"attempt_fails"`
	EstabResets     int64  `json:"estab_resets"`
	OutRsts         int64  `json:"out_rsts"`
	InErrs          int64  `json:"in_errs"`
	ActiveOpens     int64  `json:"active_opens"`
	PassiveOpens    int64  `json:"passive_opens"`
	InSegs          int64  `json:"in_segs"`
	OutSegs         int64  `json:"out_segs"`
	CurrEstab       int64  `json:"curr_estab"` // gauge
}

// NetDevRow is one interface over one interval: /proc/net/dev, and its root queueing discipline
// from rtnetlink. The interface that leads to the other end has a row in every sample; others
// only when a counter moved.
type NetDevRow struct {
	ObservedHead
	Iface     string `json:"iface"`
	Side      string `json:"side,omitempty"`   // the end that has its namespace; "" if both have one
	Target    bool   `json:"target,omitempty"` // the route to the other end of the run leaves here
	RxBytes   int64  `json:"rx_bytes"`
	RxPackets int64  `json:"rx_packets"`
	RxErrs    int64  `json:"rx_errs,omitempty"`
	RxDrop    int64  `json:"rx_drop,omitempty"`
	RxFifo    int64  `json:"rx_fifo,omitempty"` // ring overruns
	TxBytes   int64  `json:"tx_bytes"`
	TxPackets int64  `json:"tx_packets"`
	TxDrop    int64  `json:"tx_drop,omitempty"` // dropped, or not sent for an error
	SpeedMbit int64  `json:"speed_mbit"`        // link speed in 10⁶ bit/s; -1 unknown (lo, most virtual interfaces)
	// SpeedNominal: the interface is virtual (veth, bridge, tun), so its stated speed limits
	// nothing.
	SpeedNominal bool `json:"speed_nominal,omitempty"`

	QdiscUse
	// Bad says why the row is unusable: a counter went backwards.
	Bad string `json:"bad,omitempty"`
}

// Lost returns the packets that were dropped, overran a ring or had errors.
func (r *NetDevRow) Lost() int64 {
	return max(r.RxDrop, 0) + max(r.TxDrop, 0) + max(r.RxFifo, 0) + max(r.RxErrs, 0)
}

// QdiscUse is an interface's queueing discipline over one interval, for the sending direction.
type QdiscUse struct {
	// Qdisc is the kind of the queueing discipline that all traffic sent here passes, "tbf",
	// "htb", "mq"; "" if not read.
	Qdisc string `json:"qdisc,omitempty"`
	// QdiscRateBitsPerS is the rate that it shapes to, in bits per second with link-layer
	// headers: tbf's rate, or htb's default class's. 0: none known.
	QdiscRateBitsPerS int64 `json:"qdisc_rate_bits_per_s,omitempty"`
	// QdiscPacketBytes is what a smaller packet is charged as (mpu of tc-tbf(8)), so that the rate is
	// one of packets; 0: its own size.
	QdiscPacketBytes  int64 `json:"qdisc_packet_bytes,omitempty"`
	QdiscBacklogBytes int64 `json:"qdisc_backlog_bytes,omitempty"` // gauge: waiting to be sent
	QdiscDrops        int64 `json:"qdisc_drops,omitempty"`         // packets dropped because its queue was full; not in TxDrop
	QdiscOverlimits   int64 `json:"qdisc_overlimits,omitempty"`    // times it delayed a packet
}

// SoftnetRow is /proc/net/softnet_stat over one interval, for the CPUs with counters that moved.
type SoftnetRow struct {
	ObservedHead
	CPUs []SoftnetCPU `json:"cpus"`
}

// SoftnetCPU is one CPU's packet backlog.
type SoftnetCPU struct {
	CPU       int    `json:"cpu"`
	Processed uint32 `json:"processed,omitempty"`
	Dropped   uint32 `json:"dropped,omitempty"`  // backlog queue full
	Squeezed  uint32 `json:"squeezed,omitempty"` // stopped with packets left: budget or time used up
	RPS       uint32 `json:"rps,omitempty"`      // times another CPU woke it for packets steered by RPS
}

// SoftirqRow is /proc/softirqs over one interval, for the CPUs with counters that moved.
type SoftirqRow struct {
	ObservedHead
	CPUs []SoftirqCPU `json:"cpus"`
}

// SoftirqCPU counts one CPU's network softirqs.
type SoftirqCPU struct {
	CPU   int    `json:"cpu"`
	NetRx uint32 `json:"net_rx,omitempty"`
	NetTx uint32 `json:"net_tx,omitempty"`
}

// IRQRow has the interrupts of the network interface that routes to the target, over one
// interval: /proc/interrupts.
type IRQRow struct {
	ObservedHead
	Lines []IRQLine `json:"lines"`
}

// IRQLine is one interrupt, usually one queue of the NIC.
type IRQLine struct {
	IRQ  int      `json:"irq"`  // 41
	Name string   `json:"name"` // "eth0-rx-3"
	CPUs []IRQCPU `json:"cpus"` // those that handled any
}

// IRQCPU counts an interrupt on one CPU.
type IRQCPU struct {
	CPU   int    `json:"cpu"`
	Count uint32 `json:"count"`
}

// NICRow has a network driver's counters of packets lost or delayed, over one interval: ethtool
// -S. There is no row if none rose.
type NICRow struct {
	ObservedHead
	Iface    string       `json:"iface"`
	Side     string       `json:"side,omitempty"` // the end that has its namespace; "" if both have one
	Counters []NICCounter `json:"counters"`
}

// NICCounter is a counter that rose, by the driver's own name.
type NICCounter struct {
	Name  string `json:"name"`  // "bw_in_allowance_exceeded", "rx_queue_0_drops"
	Count int64  `json:"count"` // packets, as a rule
}

// PSIRow is /proc/pressure over one interval: time in which some task, or all
// of them, waited for the resource. -1: not kept by this kernel.
type PSIRow struct {
	ObservedHead
	CPUSomeNs    int64 `json:"cpu_some_ns"`
	CPUFullNs    int64 `json:"cpu_full_ns"` // always 0 or -1 for the whole host
	MemorySomeNs int64 `json:"memory_some_ns"`
	MemoryFullNs int64 `json:"memory_full_ns"`
	IOSomeNs     int64 `json:"io_some_ns"`
	IOFullNs     int64 `json:"io_full_ns"`
}

// DiskRow is one block device over one interval: /proc/diskstats, without partitions. A device on
// which the server, or a server that it calls, has files open has a row in every sample; others
// only when a counter moved.
type DiskRow struct {
	ObservedHead
	Device string `json:"device"` // "sda", "nvme0n1", "dm-0"
	// PIDs of the observed processes with files open on it, or on what is stacked on it (a
	// volume, an array), as far as visible: the server's, and of the servers that it calls.
	PIDs         []int `json:"pids,omitempty"`
	Reads        int64 `json:"reads,omitempty"`
	ReadBytes    int64 `json:"read_bytes,omitempty"`
	ReadNs       int64 `json:"read_ns,omitempty"` // summed over the reads, including queueing
	Writes       int64 `json:"writes,omitempty"`  // an fsync without data counts as one of no bytes
	WrittenBytes int64 `json:"written_bytes,omitempty"`
	WriteNs      int64 `json:"write_ns,omitempty"` // summed over the writes, a flush that they waited for included
	// Flushes of the device's cache: the block layer runs one at a time, for all waiters. A
	// device without a write cache has none.
	Flushes  int64 `json:"flushes,omitempty"`
	FlushNs  int64 `json:"flush_ns,omitempty"` // summed over the flushes
	BusyNs   int64 `json:"busy_ns"`            // with at least one request in flight (io_ticks), in ticks of 1 to 10 ms
	QueueNs  int64 `json:"queue_ns"`           // summed over all reads, writes and discards: over WidthNs, the mean queue depth
	InFlight int   `json:"in_flight"`          // gauge
	// Bad says why the row is unusable: a counter went backwards.
	Bad string `json:"bad,omitempty"`
}

// TitlesRow is what the processes of a PostgreSQL on the host are doing, by their titles: all
// gauges.
type TitlesRow struct {
	ObservedHead
	Sessions          int `json:"sessions"`                      // processes that serve a client
	Active            int `json:"active"`                        // of these, within a statement
	IdleInTransaction int `json:"idle_in_transaction,omitempty"` // sessions between the statements of a transaction
	Waiting           int `json:"waiting"`                       // of the active, for a lock held by another session
	// Commands of the waiting ones, most first, at most 4.
	Commands []TitleCommand `json:"commands,omitempty"`
	Cut      bool           `json:"cut,omitempty"` // there are more processes than were read
}

// TitleCommand is a command, "UPDATE", and how many sessions wait in it.
type TitleCommand struct {
	Command  string `json:"command"` // of those that wait, most first, at most 4: UPDATE
	Sessions int    `json:"sessions"`
}

// ThrottleRow is one cgroup's CPU bandwidth control over one interval: cpu.stat of an observed
// process's cgroup.
type ThrottleRow struct {
	ObservedHead
	Cgroup      string `json:"cgroup"`       // path within the hierarchy
	Version     int    `json:"version"`      // 1 or 2
	Periods     int64  `json:"periods"`      // enforcement periods that had runnable tasks
	Throttled   int64  `json:"throttled"`    // of these, in which the group was throttled
	ThrottledNs int64  `json:"throttled_ns"` // summed over CPUs: can exceed WidthNs
	QuotaUs     int64  `json:"quota_us"`     // gauge: CPU time allowed per period; -1 no limit here (a parent may have one)
	PeriodUs    int64  `json:"period_us"`    // gauge
}

// FreqRow is the frequency of the CPUs at TNs: cpufreq in sysfs.
type FreqRow struct {
	ObservedHead
	Governor  string `json:"governor,omitempty"` // of the first CPU; "mixed" if they differ
	CPUs      int    `json:"cpus"`               // how many were read
	MinKHz    int64  `json:"min_khz"`            // slowest of them now
	MeanKHz   int64  `json:"mean_khz"`           //
	MaxKHz    int64  `json:"max_khz"`            // fastest of them now
	LimitKHz  int64  `json:"limit_khz"`          // the hardware's maximum (cpuinfo_max_freq)
	Throttles int64  `json:"throttles"`          // thermal throttle events in the interval, all cores; -1 if not kept
}

// ObserverRow is the cost of observing.
type ObserverRow struct {
	ObservedHead
	CPUNs   int64        `json:"cpu_ns"`  // thread CPU time within the samples of this interval
	Samples int          `json:"samples"` // calls in the interval
	Sources []SourceCost `json:"sources"` // those that ran in the interval
}

// SourceCost is one sampler's part of that cost.
type SourceCost struct {
	Source  string `json:"source"` // a sampler that ran in the interval
	Samples int    `json:"samples"`
	CPUNs   int64  `json:"cpu_ns"`
}

// DecodeObserved reads one observed row from its JSON. It returns an error for a kind that this
// file does not define.
func DecodeObserved(line []byte) (ObservedRow, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("read observed row: %w", err)
	}
	row, ok := NewObservedRow(head.Kind)
	if !ok {
		return nil, fmt.Errorf("read observed row: unknown kind %q", head.Kind)
	}
	if err := json.Unmarshal(line, row); err != nil {
		return nil, fmt.Errorf("read observed row of kind %s: %w", head.Kind, err)
	}
	return row, nil
}
