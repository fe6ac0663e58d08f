package quorum

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/process"
	"ceiling/internal/scratch"
	"ceiling/internal/sys"
	"ceiling/measure/netns"
)

const (
	dirPrefix = "ceiling-kv-"

	// Ports in a namespace, where all are free.
	clientPort = 4222
	peerPort   = 6222
	innerPort  = 6223

	connectWait = 100 * time.Millisecond // between attempts to reconnect to a replica
)

// A node is a process of the bucket: a replica, or the mirror.
type node struct {
	plan plan
	at   *netns.Namespace // nil for the loopback

	mu      sync.Mutex
	process *process.Process // nil if never started

	conn *nats.Conn
}

// A Bucket is a running bucket. It is safe for concurrent use.
type Bucket struct {
	options Options
	net     string // namespaces or loopback
	room    *scratch.Dir
	nodes   []*node
	held    []func() // release the ports on the loopback

	lead   leadership
	reads  rounds
	beats  heartbeats
	counts counts

	ctx   context.Context
	abort context.CancelFunc
	work  sync.WaitGroup
	once  sync.Once
	err   error // of Close
}

// Start starts replicas and creates the bucket. The caller must Close it. Errors are one line;
// after an error nothing is left behind.
func Start(ctx context.Context, o Options) (*Bucket, error) {
	b := &Bucket{options: o, lead: leadership{wanted: make(chan struct{}, 1)}}
	b.ctx, b.abort = context.WithCancel(context.WithoutCancel(ctx))
	err := b.start(ctx)
	if err == nil {
		return b, nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("key-value bucket: %w", err), b.Close())
}

func (b *Bucket) start(ctx context.Context) (err error) {
	limited, done := context.WithTimeoutCause(ctx, b.options.Within, fmt.Errorf("accepted no connections within %s", b.options.Within))
	defer done()
	if b.net, err = chooseNet(b.options.Net, os.Geteuid()); err != nil {
		return err
	}
	if b.room, err = scratch.New(os.TempDir(), dirPrefix); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	for i := range b.options.nodes() {
		b.nodes = append(b.nodes, &node{plan: plan{Name: fmt.Sprintf("r%d", i+1), Dir: filepath.Join(b.room.Path, fmt.Sprintf("r%d", i+1)),
			Delay: b.options.Delay, Sync: b.options.Sync}})
	}
	if b.net == Namespaces {
		err = b.inNamespaces(ctx)
	} else {
		err = b.onLoopback()
	}
	if err != nil {
		return err
	}
	for _, n := range b.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range b.nodes {
		if _, err := n.process.Await(limited, nil); err != nil {
			return fmt.Errorf("replica %s: %w", n.plan.Name, err)
		}
		if err := b.connect(n); err != nil {
			return err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, b.options.Within)
	defer cancel()
	if err := b.make(bounded); err != nil {
		return err
	}
	b.work.Go(b.follow)
	if b.options.Replicas > 1 {
		b.work.Go(b.beat)
	}
	if err := b.fill(bounded); err != nil {
		return err
	}
	return b.makeMirror(bounded)
}

// chooseNet returns the requested net, or the best that this user may create.
func chooseNet(asked string, user int) (string, error) {
	if asked == Loopback {
		return asked, nil
	}
	why := ""
	if _, err := exec.LookPath("ip"); err != nil {
		why = "the command ip, which is not installed (apt-get install iproute2)"
	} else if user != 0 {
		why = "root"
	}
	switch {
	case why == "":
		return Namespaces, nil
	case asked == Namespaces:
		return "", fmt.Errorf("net=namespaces takes %s; use net=loopback", why)
	}
	return Loopback, nil
}

// onLoopback gives each node ports, and holds them until Close: a replica that is started again
// finds its own.
func (b *Bucket) onLoopback() error {
	host := netip.MustParseAddr("127.0.0.1")
	var failed error
	hold := func() int {
		at, release, err := sys.HoldPort(host, true)
		if err != nil {
			failed = errors.Join(failed, err)
			return 0
		}
		b.held = append(b.held, release)
		return int(at.Port())
	}
	for _, n := range b.nodes {
		n.plan.Host, n.plan.Port = host.String(), hold()
		if len(b.nodes) > 1 {
			n.plan.Peers, n.plan.Inner = net.JoinHostPort(host.String(), strconv.Itoa(hold())), hold()
		}
	}
	b.route()
	return failed
}

// route gives each node the addresses of all.
func (b *Bucket) route() {
	var routes []string
	for _, n := range b.nodes {
		if n.plan.Peers != "" {
			routes = append(routes, "nats://"+n.plan.Peers)
		}
	}
	for _, n := range b.nodes {
		n.plan.Routes = routes
	}
}

// inNamespaces creates a network namespace per node, with a link from here and one to each other
// node. It first removes leftovers of killed processes.
func (b *Bucket) inNamespaces(ctx context.Context) (err error) {
	_, _ = netns.Sweep() // fails if another process removes them at the same time
	for i, n := range b.nodes {
		if n.at, err = netns.New(ctx, i, 1); err != nil {
			return fmt.Errorf("a network namespace: %w", err)
		}
		n.plan.Host, n.plan.Port = n.at.Addr.String(), clientPort
		if len(b.nodes) > 1 {
			n.plan.Peers, n.plan.Inner = net.JoinHostPort(peerAddress(i), strconv.Itoa(peerPort)), innerPort
		}
	}
	for i, n := range b.nodes {
		if len(b.nodes) == 1 {
			break
		}
		if err := n.at.Do(ctx, "ip", "address", "add", peerAddress(i)+"/32", "dev", "lo"); err != nil {
			return err
		}
	}
	for i, n := range b.nodes {
		for j := i + 1; j < len(b.nodes); j++ {
			if err := netns.Join(ctx, n.at, b.nodes[j].at, linkName(j), linkName(i), peerAddress(i), peerAddress(j)); err != nil {
				return err
			}
		}
	}
	b.route()
	return nil
}

// linkName is the name within a namespace of its link to node i.
func linkName(i int) string { return fmt.Sprintf("to-r%d", i+1) }

// peerAddress is node i's address for the others: in TEST-NET-1 (RFC 5737), used only in these
// namespaces.
func peerAddress(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }

func (n *node) start() error {
	p, err := run(&n.plan, n.at)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = p
	return nil
}

// current returns the node's process, or nil.
func (n *node) current() *process.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// connect opens a connection to one node, which reconnects automatically.
func (b *Bucket) connect(n *node) (err error) {
	n.conn, err = nats.Connect("nats://"+net.JoinHostPort(n.plan.Host, strconv.Itoa(n.plan.Port)), nats.Timeout(b.options.Timeout),
		nats.MaxReconnects(-1), nats.ReconnectWait(connectWait), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreDiscoveredServers(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the default prints it; failing requests report it
	if err != nil {
		return fmt.Errorf("connect to replica %s: %w", n.plan.Name, err)
	}
	return nil
}

// Abort makes operations in progress fail.
func (b *Bucket) Abort() { b.abort() }

// Close stops the replicas and removes their files and networks.
func (b *Bucket) Close() error {
	b.once.Do(func() { b.err = b.close() })
	return b.err
}

func (b *Bucket) close() error {
	b.abort()
	b.work.Wait()
	var all sync.WaitGroup
	for _, n := range b.nodes {
		if n.conn != nil {
			n.conn.Close()
		}
		if p := n.current(); p != nil {
			all.Go(p.Stop)
		}
	}
	all.Wait()
	for _, release := range b.held {
		release()
	}
	var err error
	for _, n := range b.nodes {
		if n.at != nil {
			err = errors.Join(err, n.at.Remove())
		}
	}
	if b.room != nil {
		err = errors.Join(err, b.room.Remove())
	}
	return err
}

// run starts this program as a replica, configured by its environment, in a namespace if given.
// To stop it is to kill it, like a crash: its files are deleted with it, or a test examines them.
func run(p *plan, in *netns.Namespace) (*process.Process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// Under its original name, on which a program may depend.
	name, err := exec.LookPath(os.Args[0])
	if err != nil {
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	// The command line shows the replica's name in process lists; the variable is what matters.
	args := []string{"replica", p.Name}
	if in != nil {
		name, args = in.Within(name, args...)
	}
	c := process.Command{Name: name, Args: args, Env: []string{ReplicaEnv + "=" + string(text)}, Death: syscall.SIGKILL,
		Ready: func(line string) (string, bool) { return "", line == readyLine }}
	one, err := c.Start()
	if err != nil {
		return nil, fmt.Errorf("start replica %s: %w", p.Name, err)
	}
	return one, nil
}
