package selftest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ceiling/internal/unit"
)

// A link is a veth pair into a network namespace of its own, shaped where the
// server's bytes leave it by a token bucket: tc-tbf(8). One of its two numbers
// is set.
type link struct {
	bitsPerS float64
	// packetsPerS holds for packets up to packetBytes: the bucket charges each
	// of them as much as one of that size (mpu of tc-tbf(8), Linux 5.18 and
	// later: net/sched/sch_generic.c, psched_ratecfg_precompute).
	packetsPerS float64
}

const packetBytes = 1514

func (l link) String() string {
	if l.packetsPerS > 0 {
		return unit.FormatSI(l.packetsPerS) + " packets/s"
	}
	return unit.FormatSI(l.bitsPerS) + "bit/s"
}

// shape is what tc is told. The burst is the least that a whole offloaded
// segment of 64 KiB fits in; the queue is as long as 50 ms.
func (l link) shape() []string {
	rate, extra := l.bitsPerS, []string(nil)
	if l.packetsPerS > 0 {
		rate = l.packetsPerS * packetBytes * 8
		extra = []string{"mpu", strconv.Itoa(packetBytes)}
	}
	return append([]string{"root", "tbf", "rate", strconv.FormatInt(int64(rate), 10) + "bit", "burst", "66000", "latency", "50ms"}, extra...)
}

// namespace is a network namespace with one end of a link in it. Its name, and
// that of the link's other end, carry the number of the process that made it.
type namespace struct {
	name string
	veth string     // the end outside
	addr netip.Addr // of the end inside
}

const (
	namePrefix = "ceiling-" // + pid + "-" + number: namespaces and cgroups
	vethPrefix = "cg"       // + pid + "h" + number: at most 15 characters (IFNAMSIZ)
)

// namespaceName is that of the namespace that this process makes with a number.
func namespaceName(number int) string { return fmt.Sprintf("%s%d-%d", namePrefix, os.Getpid(), number) }

// newNamespace makes a namespace and its link. What it has made it removes
// again where it fails.
func newNamespace(ctx context.Context, number int, l link) (n *namespace, err error) {
	pid := os.Getpid()
	outside, inside := linkAddresses(pid, number)
	n = &namespace{
		name: namespaceName(number),
		veth: fmt.Sprintf("%s%dh%d", vethPrefix, pid, number), addr: inside,
	}
	if err := tool(ctx, "ip", "netns", "add", n.name); err != nil {
		return nil, err
	}
	for _, command := range [][]string{
		{"ip", "link", "add", n.veth, "type", "veth", "peer", "name", "eth0", "netns", n.name},
		{"ip", "address", "add", outside.String() + "/30", "dev", n.veth},
		{"ip", "link", "set", n.veth, "up"},
		{"ip", "-n", n.name, "address", "add", inside.String() + "/30", "dev", "eth0"},
		{"ip", "-n", n.name, "link", "set", "eth0", "up"},
		{"ip", "-n", n.name, "link", "set", "lo", "up"},
		append([]string{"tc", "-n", n.name, "qdisc", "add", "dev", "eth0"}, l.shape()...),
	} {
		if err := tool(ctx, command[0], command[1:]...); err != nil {
			if removed := n.remove(); removed != nil {
				err = fmt.Errorf("%w; and then %w", err, removed)
			}
			return nil, err
		}
	}
	return n, nil
}

// remove deletes the link and the namespace. A deleted namespace would take its
// end of the link along, but only some time later, in a kernel thread
// (net/core/net_namespace.c, cleanup_net). It does not take a context: it has
// to be done also when the run was interrupted.
func (n *namespace) remove() error {
	var err error
	if _, there := os.Stat("/sys/class/net/" + n.veth); there == nil {
		err = removeLink(n.veth)
	}
	return errors.Join(err, removeNamespace(n.name))
}

func removeLink(name string) error { return remove("link", name) }

func removeNamespace(name string) error { return remove("netns", name) }

func remove(what, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return tool(ctx, "ip", what, "delete", name)
}

// within is a command line that runs inside.
func (n *namespace) within(program string, args []string) (string, []string) {
	return "ip", append([]string{"netns", "exec", n.name, program}, args...)
}

// linkAddresses are two of 198.18.0.0/15, which RFC 2544 gives to measurements
// between networks: nobody routes them. A process has four blocks of the
// 32,768 there are.
func linkAddresses(pid, number int) (outside, inside netip.Addr) {
	block := uint32(pid%8192*4+number%4) * 4
	base := uint32(198)<<24 | 18<<16 | block
	at := func(x uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
	}
	return at(base + 1), at(base + 2)
}

// tool runs a command of the system and answers with what it complained about.
func tool(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
