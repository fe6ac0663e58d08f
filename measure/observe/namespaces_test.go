//go:build linux

package observe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/record"
)

// A server in a network namespace of its own and its client here, over a veth
// pair: the container's case. Made anew for each test, as root.

const remotePort = 8080

// namespaceServer is what TestMain runs in the namespace. Each order is
// answered when it has been carried out.
func namespaceServer(addr string) {
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var conns []*net.TCPConn
	fmt.Println("done")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		what, number, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(number)
		switch what {
		case "accept":
			c, err := l.Accept()
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			conns = append(conns, c.(*net.TCPConn))
		case "send": // over the last connection, without waiting for it to arrive
			go conns[len(conns)-1].Write(make([]byte, n))
		case "read":
			if _, err := io.CopyN(io.Discard, conns[len(conns)-1], int64(n)); err != nil {
				fmt.Println(err)
			}
		case "await": // bytes that are there, and stay unread
			if err := peek(conns[len(conns)-1], n); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("done")
	}
	os.Exit(0)
}

// peek waits until n unread bytes are there.
func peek(c *net.TCPConn, n int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, n)
	return raw.Read(func(fd uintptr) bool {
		got, _, err := syscall.Recvfrom(int(fd), buf, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err == nil && got == n
	})
}

// remote is a namespace with a server in it.
type remote struct {
	*helper
	cmd        *exec.Cmd
	name       string
	here, over string // the two interfaces
}

// tool runs a command that has to succeed.
func tool(t *testing.T, line string, args ...any) {
	t.Helper()
	words := strings.Fields(fmt.Sprintf(line, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s(making network namespaces takes root and iproute2)", strings.Join(words, " "), err, out)
	}
}

// newRemote makes the namespace and starts the server. Names and addresses are
// of this process alone; 198.18.0.0/15 is for measurements (RFC 2544).
func newRemote(t *testing.T) *remote {
	t.Helper()
	id := fmt.Sprintf("ceil%d", os.Getpid())
	r := &remote{name: id, here: id + "a", over: id + "b"}
	pid := os.Getpid()
	subnet := fmt.Sprintf("198.%d.%d.%d", 18+pid>>14&1, pid>>6&255, pid<<2&255)
	first, _ := netip.ParseAddr(subnet)
	mine := first.Next()
	its := mine.Next()
	tool(t, "ip netns add %s", id)
	t.Cleanup(func() { tool(t, "ip netns del %s", id) })
	tool(t, "ip link add %s type veth peer name %s netns %s", r.here, r.over, id)
	t.Cleanup(func() { tool(t, "ip link del %s", r.here) }) // before the namespace, which takes its interfaces along later
	tool(t, "ip addr add %s/30 dev %s", mine, r.here)
	tool(t, "ip link set %s up", r.here)
	tool(t, "ip -n %s addr add %s/30 dev %s", id, its, r.over)
	tool(t, "ip -n %s link set %s up", id, r.over)
	tool(t, "ip -n %s link set lo up", id)

	addr := netip.AddrPortFrom(its, remotePort)
	r.cmd = exec.Command("ip", "netns", "exec", id, os.Args[0], addr.String())
	r.cmd.Env = append(os.Environ(), helperEnv+"=namespace")
	r.cmd.Stderr = os.Stderr
	r.helper = &helper{t: t, addr: addr}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.in.Close(); r.cmd.Wait() })
	r.out, r.pid = bufio.NewReader(out), r.cmd.Process.Pid
	if line, err := r.out.ReadString('\n'); err != nil || line != "done\n" {
		t.Fatalf("the server says %q %v", line, err)
	}
	return r
}

// connect makes a connection and has it accepted.
func (r *remote) connect() *net.TCPConn {
	r.t.Helper()
	c, err := net.Dial("tcp4", r.addr.String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	r.order("accept")
	return c.(*net.TCPConn)
}

// sampling observes from here, on the real clock.
type sampling struct {
	*collect
	o     *Observer
	began time.Time
}

func (r *remote) observe() *sampling {
	r.t.Helper()
	s := &sampling{
		collect: &collect{t: r.t}, began: time.Now(),
		o: newObserver(r.t, Config{TargetAddr: r.addr, NetNSPID: FindNamespace(r.addr), GeneratorPID: os.Getpid()}),
	}
	s.o.Sample(0, s.emit)
	return s
}

// again samples everything, however much the last sample has cost: the rounds
// are sent back to their beginning, but not the sources. The sockets are listed
// anew.
func (s *sampling) again() {
	for _, r := range s.o.rounds() {
		r.started = false
	}
	for _, one := range s.o.timetable.queues.sources {
		if sockets, ok := one.sampler.(*socketSampler); ok {
			sockets.roster = nil
		}
	}
	s.rows = nil
	s.o.Sample(int64(time.Since(s.began)), s.emit)
}

func (s *sampling) sockets() *record.SocketsRow {
	s.t.Helper()
	return last(s.t, rowsOf[record.SocketsRow](s.collect))
}

func (s *sampling) tcpInfo() *record.TCPInfoRow {
	s.t.Helper()
	return last(s.t, rowsOf[record.TCPInfoRow](s.collect))
}

// link is the row of the marked interface of a side, of which there is one.
func (s *sampling) link(side string) *record.NetDevRow {
	s.t.Helper()
	var found []*record.NetDevRow
	for _, r := range rowsOf[record.NetDevRow](s.collect) {
		if r.Side == side && r.Target {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("%d marked interfaces of the %s: %+v; not measured: %+v", len(found), side, found, s.o.NotMeasured())
	}
	return found[0]
}

func last[T any](t testing.TB, rows []*T) *T {
	t.Helper()
	if len(rows) == 0 {
		t.Fatalf("no %T", *new(T))
	}
	return rows[len(rows)-1]
}

// until samples until a condition holds: the kernel's work on a packet has no
// handshake with the one who waits for its effect.
func (s *sampling) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if s.again(); holds() {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s was not seen; sockets %+v", what, s.sockets())
		}
	}
}

func TestServerInANamespaceIsSeenFromBothEnds(t *testing.T) {
	needs.Root(t)
	checkDescriptors(t)
	r := newRemote(t)
	if pid := FindNamespace(r.addr); pid != r.pid {
		t.Fatalf("process %d is in the namespace, found %d", r.pid, pid)
	}
	s := r.observe()
	for range 5 {
		r.connect()
	}
	r.order("send 3000")
	s.again()
	if q := s.sockets(); q.Client.Sockets != 5 || q.Server.Sockets != 5 || q.CostNs <= 0 {
		t.Errorf("%+v", q)
	}
	if i := s.tcpInfo(); i.Client.Sockets != 5 || i.Server.Sockets != 5 || i.Client.RTTMaxUs <= 0 || i.Server.RTTMaxUs <= 0 || i.CostNs <= 0 {
		t.Errorf("%+v", i)
	}
	sides := map[string]*record.TCPRow{}
	for _, row := range rowsOf[record.TCPRow](s.collect) {
		sides[row.Side] = row
	}
	if len(sides) != 2 || sides[record.SideGenerator] == nil || sides[record.SideServer] == nil {
		t.Fatalf("TCP counters of %+v", sides)
	}
	// Others may open connections here; there is nobody else in there.
	if g := sides[record.SideGenerator]; g.ActiveOpens < 5 || g.WidthNs <= 0 {
		t.Errorf("generator's side %+v", g)
	}
	if g := sides[record.SideServer]; g.ActiveOpens != 0 || g.PassiveOpens != 5 || g.CurrEstab != 5 {
		t.Errorf("server's side %+v", g)
	}
	for side, name := range map[string]string{record.SideGenerator: r.here, record.SideServer: r.over} {
		l := s.link(side)
		if l.Iface != name || !l.SpeedNominal || l.RxPackets < 5 || l.TxPackets < 5 || l.Bad != "" || l.Qdisc != "noqueue" ||
			l.QdiscRateBitsPerS != 0 {
			t.Errorf("%s's side: %+v, want %s", side, l, name)
		}
		if want := map[string]int64{record.SideGenerator: 10000, record.SideServer: -1}[side]; l.SpeedMbit != want {
			t.Errorf("%s's side: speed %d, want %d", side, l.SpeedMbit, want)
		}
	}
	// What one end of the link sends the other receives.
	if g, v := s.link(record.SideGenerator), s.link(record.SideServer); g.RxBytes < 3000 || v.TxBytes < 3000 {
		t.Errorf("%+v\n%+v", g, v)
	}
	listeners := last(t, rowsOf[record.ListenerRow](s.collect)).Listeners
	if len(listeners) != 1 || len(listeners[0].PIDs) != 1 || listeners[0].PIDs[0] != r.pid {
		t.Errorf("listeners %+v", listeners)
	}
	for _, n := range s.o.NotMeasured() {
		switch {
		case strings.HasPrefix(n.What, "netdev"), strings.HasPrefix(n.What, "tcp"), n.What == "sockets", n.What == "subject":
			t.Errorf("not measured: %+v", n)
		}
	}
}

func TestBytesWaitForTheClientHere(t *testing.T) {
	needs.Root(t)
	r := newRemote(t)
	c := r.connect()
	s := r.observe()
	r.order("send 5000")
	arrived(t, c, 5000)
	s.again()
	if q := s.sockets(); q.Client.Unread != 1 || q.Client.UnreadBytes != 5000 || q.Server.Unread != 0 {
		t.Errorf("%+v", q)
	}
	// More than both sockets hold: the server cannot go on, for want of the
	// client's window.
	r.order("send 100000000")
	s.until("a window that is closed", func() bool {
		q, i := s.sockets(), s.tcpInfo()
		return q.Client.Unread == 1 && q.Client.UnreadBytes > 100_000 && q.Server.Unacked == 1 && q.Server.Unread == 0 && i.Server.RwndNs > 0
	})
	i := s.tcpInfo()
	if i.Server.RwndNs > i.Server.BusyNs || i.Client.RwndNs != 0 {
		t.Errorf("%+v", i)
	}
}

func TestBytesWaitForTheServerOverThere(t *testing.T) {
	needs.Root(t)
	r := newRemote(t)
	c := r.connect()
	s := r.observe()
	write(t, c, 4000)
	r.order("await 4000")
	s.again()
	if q := s.sockets(); q.Server.Unread != 1 || q.Server.UnreadBytes != 4000 || q.Client.Unread != 0 {
		t.Errorf("%+v", q)
	}
	r.order("read 4000")
	s.until("the server reading", func() bool { q := s.sockets(); return q.Server.Unread == 0 && q.Client.Unacked == 0 })
	// And while it has not accepted the connection.
	waiting, err := net.Dial("tcp4", r.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	write(t, waiting, 100)
	s.until("a connection in the accept queue", func() bool {
		q := s.sockets()
		return q.Server.Unaccepted == 1 && q.Server.Sockets == 2 && q.Client.Sockets == 2 && q.Server.UnreadBytes == 100
	})
	if l := last(t, rowsOf[record.ListenerRow](s.collect)).Listeners; len(l) != 1 || l[0].Queue != 1 {
		t.Errorf("listeners %+v", l)
	}
}

// A link of 1 Mbit/s, planted at either end and in two ways.
func TestBytesWaitForTheLink(t *testing.T) {
	needs.Root(t)
	const megabit = 1_000_000
	for _, c := range []struct {
		name, side, kind string
		shape            []string // commands of tc, "@" is the interface
	}{
		{"tbf on the way back", record.SideServer, "tbf", []string{
			"qdisc add dev @ root tbf rate 1mbit burst 4kb limit 20kb",
		}},
		{"tbf on the way in", record.SideGenerator, "tbf", []string{
			"qdisc add dev @ root tbf rate 1mbit burst 4kb limit 20kb",
		}},
		{"htb on the way back", record.SideServer, "htb", []string{
			"qdisc add dev @ root handle 1: htb default 10",
			"class add dev @ parent 1: classid 1:1 htb rate 100mbit",
			"class add dev @ parent 1:1 classid 1:10 htb rate 500kbit ceil 1mbit",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkDescriptors(t)
			r := newRemote(t)
			// Packets as they are on a wire: 64 KiB in one would be half a second of the link.
			tool(t, "ip link set %s gso_max_segs 1", r.here)
			tool(t, "ip -n %s link set %s gso_max_segs 1", r.name, r.over)
			conn := r.connect()
			s := r.observe()
			s.again()
			if l := s.link(c.side); l.Qdisc != "noqueue" || l.QdiscRateBitsPerS != 0 {
				t.Errorf("before: %+v", l)
			}
			for _, line := range c.shape {
				if c.side == record.SideServer {
					tool(t, "tc -n %s %s", r.name, strings.Replace(line, "@", r.over, 1))
				} else {
					tool(t, "tc %s", strings.Replace(line, "@", r.here, 1))
				}
			}
			r.push(conn, c.side == record.SideServer, 20_000) // the burst, and TCP finding out
			s.again()
			r.push(conn, c.side == record.SideServer, 40_000) // a third of a second of the link
			s.again()
			l := s.link(c.side)
			if l.Qdisc != c.kind || l.QdiscRateBitsPerS != megabit || l.QdiscOverlimits == 0 || l.QdiscBacklogBytes == 0 {
				t.Errorf("%+v", l)
			}
			if rate := float64(l.TxBytes) * 8e9 / float64(l.WidthNs); rate < 0.7*megabit || rate > 1.2*megabit {
				t.Errorf("%.0f bit/s in %d ns", rate, l.WidthNs)
			}
			q := s.sockets()
			if sender := map[string]record.EndQueues{record.SideServer: q.Server, record.SideGenerator: q.Client}[c.side]; sender.Unacked != 1 ||
				sender.UnackedBytes < 10_000 {
				t.Errorf("the sender: %+v", sender)
			}
			// The other end has next to nothing unread: at most what came since.
			other := map[string]record.EndQueues{record.SideServer: q.Client, record.SideGenerator: q.Server}
			if reader := other[c.side]; reader.UnreadBytes > 8000 {
				t.Errorf("the reader: %+v", reader)
			}
			if other := s.link(map[string]string{record.SideServer: record.SideGenerator,
				record.SideGenerator: record.SideServer}[c.side]); other.QdiscRateBitsPerS != 0 {
				t.Errorf("the other end of the link: %+v", other)
			}
		})
	}
}

// push sends more over the link than it takes in, and reads n bytes of that.
func (r *remote) push(c *net.TCPConn, fromServer bool, n int) {
	r.t.Helper()
	if fromServer {
		r.order(fmt.Sprintf("send %d", 8*n))
		if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	go c.Write(make([]byte, 8*n)) // ends with the connection
	r.order(fmt.Sprintf("read %d", n))
}

// A qdisc that drops says so, and its drops are not in the interface's.
func TestDropsOfAShapedLink(t *testing.T) {
	needs.Root(t)
	r := newRemote(t)
	conn := r.connect()
	tool(t, "tc -n %s qdisc add dev %s root tbf rate 1mbit burst 4kb limit 6kb", r.name, r.over)
	s := r.observe()
	r.push(conn, true, 40_000)
	s.again()
	if l := s.link(record.SideServer); l.QdiscDrops == 0 || l.TxDrop != 0 || l.QdiscRateBitsPerS != 1_000_000 {
		t.Errorf("%+v", l)
	}
	if i := s.tcpInfo(); i.Server.RetransSegs == 0 || i.Client.RetransSegs != 0 {
		t.Errorf("%+v", i)
	}
	for _, row := range rowsOf[record.TCPRow](s.collect) {
		if row.Side == record.SideServer && row.RetransSegs == 0 {
			t.Errorf("%+v", row)
		}
	}
}

// Without root the server's namespace is closed; this side is seen all the
// same, and what is missing is said.
func TestServerInANamespaceThatIsClosed(t *testing.T) {
	needs.Root(t)
	r := newRemote(t)
	r.connect()
	r.connect()
	got := asNobody(t, r.addr.String(), strconv.Itoa(r.pid))
	if got.Clients != 2 || got.Sockets != 0 {
		t.Errorf("%d of the client's sockets, %d of the server's", got.Clients, got.Sockets)
	}
	for _, what := range []string{"sockets", "tcp_info"} {
		found := false
		for _, n := range got.NotMeasured {
			found = found || n.What == what && n.Part && strings.HasPrefix(n.Why, "the server's ends: ")
		}
		if !found {
			t.Errorf("nothing is said of the server's %s: %+v", what, got.NotMeasured)
		}
	}
}

// The server ends during the run, and another starts in the same namespace.
func TestTheNamespacesServerComesBack(t *testing.T) {
	needs.Root(t)
	r := newRemote(t)
	r.connect()
	s := r.observe()
	hold := exec.Command("ip", "netns", "exec", r.name, "cat")
	in, err := hold.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); hold.Wait() }()
	r.in.Close()
	r.cmd.Wait()
	s.until("the end", func() bool {
		q := s.sockets()
		return q.Server.Sockets == 0 && q.Client.PeerClosed == 1 && len(rowsOf[record.ListenerRow](s.collect)) == 1
	})
	again := exec.Command("ip", "netns", "exec", r.name, os.Args[0], r.addr.String())
	again.Env = append(os.Environ(), helperEnv+"=namespace")
	orders, err := again.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := again.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { orders.Close(); again.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "done\n" {
		t.Fatalf("%q %v", line, err)
	}
	c, err := net.Dial("tcp4", r.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.until("the server that came back", func() bool {
		for _, row := range rowsOf[record.ProcessRow](s.collect) {
			if row.PID == again.Process.Pid {
				return s.sockets().Server.Sockets == 1 && s.link(record.SideServer).Iface == r.over
			}
		}
		return false
	})
	for _, round := range s.o.rounds() {
		for _, source := range round.sources {
			if source.lost {
				t.Errorf("%s is lost: %+v", source.name, s.o.NotMeasured())
			}
		}
	}
}
