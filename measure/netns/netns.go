// Package netns makes network namespaces with a veth pair into them: a separate host for a server,
// with a multi-queue interface, on a machine that has none to spare. It requires root and iproute2.
// Sweep removes what a killed process left.
package netns

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

	"ceiling/internal/sys"
)

// Namespace is a network namespace with one end of a link in it. Its name, and that of the link's
// other end, contain the PID of the process that made it.
type Namespace struct {
	// Name as in ip-netns(8).
	Name string
	// Addr of Interface, the inner end.
	Addr netip.Addr

	veth  string // the outer end
	shape Shape  // of both directions
}

// Interface is the name of the inner end.
const Interface = "eth0"

const (
	// Prefix of namespaces, and of other things that tests create: + pid + "-" + number.
	Prefix     = "ceiling-"
	vethPrefix = "cg" // + pid + "h" + number: at most 15 characters (IFNAMSIZ)
)

// Name returns the name of this process's namespace with a number.
func Name(number int) string { return fmt.Sprintf("%s%d-%d", Prefix, os.Getpid(), number) }

// New makes a namespace and its link, with so many receive and send queues at either end. Within a
// process, concurrently existing numbers must differ modulo 4. On failure it removes what it has
// made.
func New(ctx context.Context, number, queues int) (*Namespace, error) {
	pid := os.Getpid()
	outside, inside := linkAddresses(pid, number)
	n := &Namespace{Name: Name(number), Addr: inside, veth: fmt.Sprintf("%s%dh%d", vethPrefix, pid, number)}
	if err := tool(ctx, "ip", "netns", "add", n.Name); err != nil {
		return nil, err
	}
	many := []string{"numrxqueues", strconv.Itoa(queues), "numtxqueues", strconv.Itoa(queues)}
	pair := append([]string{"link", "add", n.veth}, many...)
	pair = append(append(pair, "type", "veth", "peer", "name", Interface), many...)
	for _, args := range [][]string{
		append(pair, "netns", n.Name),
		{"address", "add", outside.String() + "/30", "dev", n.veth},
		{"link", "set", n.veth, "up"},
		{"-n", n.Name, "address", "add", inside.String() + "/30", "dev", Interface},
		{"-n", n.Name, "link", "set", Interface, "up"},
		{"-n", n.Name, "link", "set", "lo", "up"},
	} {
		if err := tool(ctx, "ip", args...); err != nil {
			if removed := n.Remove(); removed != nil {
				err = fmt.Errorf("%w; and then %w", err, removed)
			}
			return nil, err
		}
	}
	return n, nil
}

// Remove deletes the link and the namespace. A deleted namespace would take its end of the link
// along, but only later, in a kernel thread (net/core/net_namespace.c, cleanup_net). It takes no
// context, since it must also run after an interrupted run.
func (n *Namespace) Remove() error {
	var err error
	if _, there := os.Stat("/sys/class/net/" + n.veth); there == nil {
		err = remove("link", n.veth)
	}
	return errors.Join(err, remove("netns", n.Name))
}

func remove(what, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return tool(ctx, "ip", what, "delete", name)
}

// Within returns a command line that runs inside.
func (n *Namespace) Within(program string, args ...string) (string, []string) {
	return "ip", append([]string{"netns", "exec", n.Name, program}, args...)
}

// Do runs a system command inside, and returns its error message.
func (n *Namespace) Do(ctx context.Context, program string, args ...string) error {
	program, args = n.Within(program, args...)
	return tool(ctx, program, args...)
}

// linkAddresses returns two addresses of 198.18.0.0/15, which RFC 2544 reserves for network
// benchmarks and which is not routed. A process has four of its 32,768 blocks.
func linkAddresses(pid, number int) (outside, inside netip.Addr) {
	block := uint32(pid%8192*4+number%4) * 4
	base := uint32(198)<<24 | 18<<16 | block
	at := func(x uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
	}
	return at(base + 1), at(base + 2)
}

func tool(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Sweep removes the links and namespaces left by processes that are gone, and returns their names.
func Sweep() (removed []string, failed error) {
	sweep := func(dir, kind, what string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return // none was ever made there
		}
		for _, e := range entries {
			pid := Owner(e.Name())
			if pid == 0 || !Gone(pid) {
				continue
			}
			if err := remove(what, e.Name()); err != nil {
				failed = errors.Join(failed, fmt.Errorf("left over by process %d: %w", pid, err))
				continue
			}
			removed = append(removed, kind+" "+e.Name())
		}
	}
	sweep("/sys/class/net", "link", "link")
	sweep("/run/netns", "namespace", "netns")
	return removed, failed
}

// Owner parses the PID out of a name; 0 if it is not ours.
func Owner(name string) int {
	rest, between := "", ""
	if after, is := strings.CutPrefix(name, Prefix); is {
		rest, between = after, "-"
	} else if after, is := strings.CutPrefix(name, vethPrefix); is {
		rest, between = after, "h"
	} else {
		return 0
	}
	pid, number, found := strings.Cut(rest, between)
	n, err := strconv.Atoi(pid)
	if _, bad := strconv.Atoi(number); !found || err != nil || bad != nil || n < 1 {
		return 0
	}
	return n
}

// Gone reports whether no process has the PID, except an unreaped zombie.
func Gone(pid int) bool {
	stat, err := sys.ReadPIDStat(pid)
	return sys.Gone(err) || err == nil && stat.State == 'Z'
}

// Join makes a link between two namespaces of this process: its ends are named toB in a and toA in
// b, and each routes the other's address, which must already be one of that namespace's. It
// disappears with either of them.
func Join(ctx context.Context, a, b *Namespace, toB, toA, addrA, addrB string) error {
	for _, args := range [][]string{
		{"-n", a.Name, "link", "add", toB, "type", "veth", "peer", "name", toA, "netns", b.Name},
		{"-n", a.Name, "link", "set", toB, "up"},
		{"-n", b.Name, "link", "set", toA, "up"},
		{"-n", a.Name, "route", "add", addrB + "/32", "dev", toB, "src", addrA},
		{"-n", b.Name, "route", "add", addrA + "/32", "dev", toA, "src", addrB},
	} {
		if err := tool(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}
