//go:build linux

package observe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/sys"
	"ceiling/record"
)

// pair is one accepted connection.
type pair struct {
	client, server net.Conn
}

// connect makes n connections to a listener and accepts them.
func connect(t testing.TB, l net.Listener, n int) []pair {
	t.Helper()
	pairs := make([]pair, n)
	for i := range pairs {
		client, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		pairs[i] = pair{client, server}
		t.Cleanup(func() { client.Close(); server.Close() })
	}
	return pairs
}

func listen(t testing.TB, network, addr string) (net.Listener, netip.AddrPort) {
	t.Helper()
	if addr == "127.0.0.1:0" {
		// These tests count sockets, and somebody else's client may still dial 127.0.0.1 at a port
		// that was another listener's: an address that only this process uses.
		pid := os.Getpid()
		addr = fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&63, pid>>8&255, 1+pid%254)
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if network == "unix" {
		return l, netip.AddrPort{}
	}
	return l, netip.MustParseAddrPort(l.Addr().String())
}

// arrived waits until n unread bytes are at a connection, without reading them.
func arrived(t testing.TB, c net.Conn, n int) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, n)
	err = raw.Read(func(fd uintptr) bool {
		got, _, err := syscall.Recvfrom(int(fd), buf, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err == nil && got == n
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, c net.Conn, n int) {
	t.Helper()
	if _, err := c.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// collect copies rows by way of their JSON, as a record does.
type collect struct {
	t    testing.TB
	rows []record.ObservedRow
}

func (c *collect) emit(row record.ObservedRow) {
	line, err := json.Marshal(row)
	if err != nil {
		c.t.Fatal(err)
	}
	decoded, err := record.DecodeObserved(line)
	if err != nil {
		c.t.Fatal(err)
	}
	c.rows = append(c.rows, decoded)
	if c.t == nil { // in a child
		return
	}
	c.t.Cleanup(func() {
		if now, err := json.Marshal(row); err != nil || !bytes.Equal(line, now) {
			c.t.Errorf("a %T was changed after it was emitted: %s is now %s", row, line, now)
		}
	})
}

// rowsOf are the collected rows of one kind.
func rowsOf[T any](c *collect) []*T {
	var out []*T
	for _, r := range c.rows {
		if row, ok := any(r).(*T); ok {
			out = append(out, row)
		}
	}
	return out
}

// checkDescriptors fails if descriptors are left open at the end.
func checkDescriptors(t *testing.T) {
	t.Helper()
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	// The runtime opens its poller's descriptors with the first socket, and keeps them.
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	before := count()
	t.Cleanup(func() {
		// Package net closes its own in goroutines.
		after := count()
		for until := time.Now().Add(2 * time.Second); after > before && time.Now().Before(until); after = count() {
			time.Sleep(time.Millisecond)
		}
		if after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func newObserver(t testing.TB, cfg Config) *Observer {
	t.Helper()
	cfg.Host = "here"
	o, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// endsOf opens both ends of the connections to a target of this namespace.
func endsOf(t testing.TB, target netip.AddrPort) ends {
	t.Helper()
	var e ends
	if err := e.open(target, endNone); err != nil {
		t.Fatal(err)
	}
	return e
}

// socketsOf samples the connections to a target of this namespace, without a
// thread of its own.
func socketsOf(t testing.TB, target netip.AddrPort) *socketSampler {
	t.Helper()
	here := []*side{{}}
	l, err := newLooker(here, 1, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	doors, err := newLooker(here, 2, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := newSocketSampler(endsOf(t, target), l)
	s.info = &tcpInfoSampler{doors: doors}
	t.Cleanup(func() { s.close(); s.info.close() })
	return s
}

// The heart of the verdict: bytes that wait are found at the end where they wait.
func TestSocketQueuesOfBothEnds(t *testing.T) {
	for _, c := range []struct{ name, network, addr string }{
		{"tcp4", "tcp4", "127.0.0.1:0"}, {"dual stack", "tcp", ":0"}, {"tcp6", "tcp6", "[::1]:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, addr := listen(t, c.network, c.addr)
			pairs := connect(t, l, 10)
			target := addr
			if remote := pairs[0].client.RemoteAddr(); c.name == "dual stack" {
				target = netip.MustParseAddrPort(remote.String())
			}
			for i := range 3 {
				write(t, pairs[i].client, 100*(i+1))
				arrived(t, pairs[i].server, 100*(i+1))
			}
			write(t, pairs[9].server, 7)
			arrived(t, pairs[9].client, 7)
			pairs[5].client.Close() // end of file at the server is not unread data
			arrived(t, pairs[5].server, 0)
			runtime.LockOSThread() // the cost is this thread's
			defer runtime.UnlockOSThread()
			s := socketsOf(t, target)
			out := &collect{t: t}
			if err := s.sample(tick{tNs: 5}, out.emit); err != nil {
				t.Fatal(err)
			}
			row := rowsOf[record.SocketsRow](out)[0]
			if e := row.Server; e.Sockets != 10 || e.Unread != 3 || e.UnreadBytes != 600 || e.UnreadMaxBytes != 300 || e.Unaccepted != 0 {
				t.Errorf("server %+v", e)
			}
			if e := row.Client; e.Sockets != 9 || e.Unread != 1 || e.UnreadBytes != 7 {
				t.Errorf("client %+v", e)
			}
			if row.CostNs <= 0 || row.TNs != 5 || row.Looks != 0 {
				t.Errorf("%+v", row)
			}
			looksAgree(t, s, row)
		})
	}
}

// looksAgree has single connections looked up until chance has evened out, and
// holds the sums against the full list.
func looksAgree(t *testing.T, s *socketSampler, list *record.SocketsRow) {
	t.Helper()
	out := &collect{t: t}
	const rounds = 400
	var client, server record.EndQueues
	for i := range rounds {
		if err := s.sample(tick{tNs: int64(10 + i), widthNs: 1}, out.emit); err != nil {
			t.Fatal(err)
		}
	}
	rows := rowsOf[record.SocketsRow](out)
	for _, r := range rows {
		if r.Moments != 1 || r.Looks != 2*looksAt || r.Client.Sockets != list.Client.Sockets || r.Server.Sockets != list.Server.Sockets {
			t.Fatalf("%+v", r)
		}
		for _, e := range []struct{ sum, of *record.EndQueues }{{&client, &r.Client}, {&server, &r.Server}} {
			e.sum.Unread += e.of.Unread / rounds
			e.sum.UnreadBytes += e.of.UnreadBytes / rounds
			e.sum.PeerClosed += e.of.PeerClosed / rounds
		}
		if r.ToServer.Connections != 0 || r.ToClient.Connections != 0 || r.ToServer.Pairs != looksAt {
			t.Fatalf("nothing is on the way, but %+v %+v", r.ToServer, r.ToClient)
		}
	}
	// 10 connections of which one is closed at the client's end are 9 pairs.
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 0.2*want+0.05 {
			t.Errorf("%s: %.3g by look-ups, %.3g by the list", name, got, want)
		}
	}
	if len(rows) != rounds {
		t.Fatalf("%d rows of %d", len(rows), rounds)
	}
	near("unread by the server", server.Unread, list.Server.Unread*10/9)
	near("bytes unread by the server", server.UnreadBytes, list.Server.UnreadBytes*10/9)
	near("unread by the client", client.Unread, list.Client.Unread)
	near("bytes unread by the client", client.UnreadBytes, list.Client.UnreadBytes)
}

func TestConnectionsInTheAcceptQueue(t *testing.T) {
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, l, 1)
	for range 3 {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s := socketsOf(t, addr)
	const moments = 400
	unaccepted := 0.0
	out := &collect{t: t}
	for i := range int64(moments + 1) { // the first makes the list
		if err := s.sample(tick{tNs: i, widthNs: i}, out.emit); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range rowsOf[record.SocketsRow](out)[1:] {
		if e := row.Server; e.Sockets != 4 || row.Looks != 2*looksAt {
			t.Fatalf("server %+v of %d looks", e, row.Looks)
		}
		unaccepted += row.Server.Unaccepted / moments
	}
	// Two of the four are drawn each time: the deviation of a mean of 400 is 0.05.
	if math.Abs(unaccepted-3) > 0.3 {
		t.Errorf("%.2f connections wait in the accept queue, want 3", unaccepted)
	}
	ls, err := newInetListeners(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.close()
	found, err := ls.list(nil)
	if err != nil || len(found) != 1 || found[0].queue != 3 || found[0].max < 3 || found[0].addr != addr {
		t.Errorf("%+v %v", found, err)
	}
	ls.questions = listenListing(addr).byFamily()
	if again, err := ls.list(nil); err != nil || len(again) != 1 || again[0] != found[0] {
		t.Errorf("asked by family: %+v %v", again, err)
	}
	// What /proc/net/tcp says of the same listener.
	var r reader
	text, err := procListeners(&r, "/proc/net", addr)
	if err != nil || len(text) != 1 || text[0].inode != found[0].inode || text[0].queue != -1 {
		t.Errorf("%+v %v", text, err)
	}
}

// Both ways of asking list the same sockets.
func TestQuestionsAgree(t *testing.T) {
	l, addr := listen(t, "tcp", ":0")
	target := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), addr.Port())
	for range 4 {
		c, err := net.Dial("tcp", target.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	c, err := newConnections(target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ask := func(q []question) (client, server int) {
		c.questions = q
		if err := c.each(func(e end, s *inetSocket) {
			if e == endClient {
				client++
			} else {
				server++
			}
		}); err != nil {
			t.Fatal(err)
		}
		return client, server
	}
	for name, q := range map[string][]question{
		"one walk": connectionListing(target).inOne(), "by family": connectionListing(target).byFamily(),
	} {
		if client, server := ask(q); client != 4 || server != 4 {
			t.Errorf("%s: %d clients, %d servers", name, client, server)
		}
	}
}

func TestTCPInfo(t *testing.T) {
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	pairs := connect(t, l, 5)
	sockets := socketsOf(t, addr)
	s := sockets.info
	again := func(at tick) *record.TCPInfoRow {
		t.Helper()
		out := &collect{t: t}
		if err := sockets.sample(tick{}, out.emit); err != nil { // the list that s follows
			t.Fatal(err)
		}
		if err := s.sample(at, out.emit); err != nil {
			t.Fatal(err)
		}
		return rowsOf[record.TCPInfoRow](out)[0]
	}
	if row := again(tick{}); row.Client.Matched != 0 || row.Client.Sockets != 5 {
		t.Errorf("first: %+v", row.Client)
	}
	write(t, pairs[0].client, 1000)
	arrived(t, pairs[0].server, 1000)
	connect(t, l, 1) // without a past: not matched
	row := again(tick{widthNs: 1})
	if e := row.Client; e.Sockets != 6 || e.Matched != 5 || e.SentSegs < 1 || e.RTTMaxUs <= 0 || e.RTTp50Us > e.RTTp99Us || e.CwndMin < 1 {
		t.Errorf("client %+v", e)
	}
	if e := row.Server; e.Matched != 5 || e.RecvBytes != 1000 {
		t.Errorf("server %+v", e)
	}
}

func TestUnixSockets(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@observe-test-%d", os.Getpid())} {
		l, _ := listen(t, "unix", path)
		pairs := connect(t, l, 6)
		other, _ := listen(t, "unix", filepath.Join(t.TempDir(), "other"))
		write(t, connect(t, other, 1)[0].client, 9)
		write(t, pairs[0].client, 10)
		write(t, pairs[1].client, 20)
		write(t, pairs[2].server, 5)
		target, err := newUnixTarget(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newUnixSampler(target)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		// A dump in parts misses a socket if one before it in its hash slot closes in between, anywhere on
		// the host (net/unix/diag.c, unix_diag_dump): a sample has at most those there are.
		var row *record.SocketsRow
		for range 10 {
			if err := s.sample(tick{}, func(r record.ObservedRow) { row = r.(*record.SocketsRow) }); err != nil {
				t.Fatal(err)
			}
			if row.Server.Sockets == 6 && row.Client.Sockets == 6 {
				break
			}
		}
		if e := row.Server; e.Sockets != 6 || e.Unread != 2 || e.UnreadBytes != 30 || e.Unacked != 1 {
			t.Errorf("%s: server %+v", path, e)
		}
		if e := row.Client; e.Sockets != 6 || e.Unread != 1 || e.UnreadBytes != 5 || e.Unacked != 2 {
			t.Errorf("%s: client %+v", path, e)
		}
		o := newObserver(t, Config{TargetUnix: path})
		if len(o.subject.processes) != 1 || o.subject.processes[0].identity.pid != os.Getpid() {
			t.Errorf("%s: subject %+v", path, o.subject.processes)
		}
	}
}

// helperEnv makes this test's binary a server of its own, see TestMain.
const helperEnv = "OBSERVE_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(m.Run())
	case "parent": // listens, starts a child that holds the listener too, says where, accepts
		runtime.LockOSThread() // what it does is done by its first thread
		addr := "127.0.0.1:0"
		if len(os.Args) > 1 {
			addr = os.Args[1]
		}
		l, err := net.Listen("tcp4", addr)
		if err != nil {
			os.Exit(1)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			os.Exit(1)
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), helperEnv+"=child")
		child.ExtraFiles = []*os.File{file}
		hold, err := child.StdinPipe()
		if err != nil || child.Start() != nil {
			os.Exit(1)
		}
		fmt.Println(l.Addr(), child.Process.Pid)
		in := bufio.NewReader(os.Stdin)
		for {
			order, err := in.ReadString('\n')
			switch {
			case order == "accept\n":
				if _, err := l.Accept(); err != nil {
					os.Exit(1)
				}
			case order == "spin\n":
				for until := usedCPU() + 30*time.Millisecond; usedCPU() < until; {
				}
			case order == "end child\n":
				hold.Close()
				child.Wait()
			case order == "leave child\n": // ended, and not waited for: a zombie
				hold.Close()
				awaitZombie(child.Process.Pid)
			case order == "start child\n":
				child = exec.Command(os.Args[0])
				child.Env = append(os.Environ(), helperEnv+"=child")
				if hold, err = child.StdinPipe(); err != nil || child.Start() != nil {
					os.Exit(1)
				}
				fmt.Println(child.Process.Pid)
				continue
			case order == "exec\n": // another program, same process, same listener
				if err := syscall.Dup3(int(file.Fd()), 3, 0); err != nil {
					os.Exit(1)
				}
				go func() { // from a young thread, which takes over the number of the first
					syscall.Exec(os.Args[0], os.Args[:1], []string{helperEnv + "=executed"})
					os.Exit(1)
				}()
				select {}
			case err == io.EOF:
				hold.Close()
				child.Wait()
				os.Exit(0)
			}
			fmt.Println("done")
		}
	case "database":
		databaseHelper()
	case "backend":
		backendHelper()
	case "namespace":
		namespaceServer(os.Args[1])
	case "executed":
		fmt.Println("done")
		for until := usedCPU() + 30*time.Millisecond; usedCPU() < until; {
		}
		fmt.Println("done")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "observe": // looks for the listener named in the arguments, and says what it found
		addr := netip.MustParseAddrPort(os.Args[1])
		cfg := Config{Host: "here", TargetAddr: addr}
		if len(os.Args) > 2 { // a process in the server's network namespace
			cfg.NetNSPID, _ = strconv.Atoi(os.Args[2])
			cfg.GeneratorPID = os.Getpid()
		}
		o, err := New(cfg)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		out := &collect{}
		o.Sample(0, out.emit)
		o.Sample(10e9, out.emit)
		seen := rowsOf[record.SocketsRow](out)[1]
		json.NewEncoder(os.Stdout).Encode(observed{len(o.subject.processes), seen.Server.Sockets, seen.Client.Sockets, o.NotMeasured()})
		os.Exit(0)
	default: // a child waits for the end of its input
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
}

// observed is what the helper "observe" found.
type observed struct {
	Processes, Sockets, Clients int
	NotMeasured                 []record.NotMeasured
}

// asNobody has another user observe.
func asNobody(t *testing.T, args ...string) (got observed) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{os.Args[0]}, args...)
	cmd.Env = append(os.Environ(), helperEnv+"=observe")
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return got
}

// Without root the sockets are seen all the same; the processes of another
// user are not, and that is said.
func TestAnotherUsersServer(t *testing.T) {
	needs.Root(t)
	if os.Getuid() != 0 {
		t.Fatal("becoming another user takes root: run this test as root")
	}
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, l, 2)
	got := asNobody(t, addr.String())
	var why string
	for _, n := range got.NotMeasured {
		if n.What == "subject" {
			why = n.Why
		}
	}
	if got.Processes != 0 || got.Sockets != 2 || !strings.Contains(why, addr.String()+" (of user 0)") ||
		!strings.Contains(why, "may not be read") {
		t.Errorf("%+v", got)
	}
}

// usedCPU is the CPU time of this process.
func usedCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// helper is a server in processes of its own.
type helper struct {
	t          *testing.T
	addr       netip.AddrPort
	pid, child int
	in         io.WriteCloser
	out        *bufio.Reader
	end        func() // ends it and waits for that
}

func startHelper(t *testing.T, args ...string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperEnv+"=parent")
	cmd.Stderr = os.Stderr
	h := &helper{t: t}
	var err error
	if h.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.end = func() { h.in.Close(); cmd.Wait() }
	t.Cleanup(h.end)
	h.out = bufio.NewReader(out)
	h.pid = cmd.Process.Pid
	var addr string
	if _, err := fmt.Fscan(h.out, &addr, &h.child); err != nil {
		t.Fatal(err)
	}
	h.out.ReadString('\n')
	h.addr = netip.MustParseAddrPort(addr)
	return h
}

func (h *helper) order(what string) {
	h.t.Helper()
	fmt.Fprintln(h.in, what)
	if line, err := h.out.ReadString('\n'); err != nil || line != "done\n" {
		h.t.Fatalf("%s: %q %v", what, line, err)
	}
}

func TestSubjectIsFoundWithItsChildren(t *testing.T) {
	checkDescriptors(t)
	h := startHelper(t)
	o := newObserver(t, Config{TargetAddr: h.addr, GeneratorPID: os.Getpid()})
	c, err := net.Dial("tcp4", h.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h.order("accept")
	out := &collect{t: t}
	o.Sample(0, out.emit)
	h.order("spin")
	o.Sample(10e9, out.emit) // far enough apart that no budget holds a round back
	h.order("end child")
	o.Sample(20e9, out.emit)

	type event struct {
		pid  int
		what string
	}
	var events []event
	for _, r := range rowsOf[record.SubjectRow](out) {
		events = append(events, event{r.PID, r.Role + " " + r.Event})
		if r.Role == record.RoleSubject && (len(r.Listeners) != 1 || r.Exe == "" || r.StartTicks == 0 || r.CPUsAllowed == "") {
			t.Errorf("%+v", r)
		}
	}
	for _, want := range []event{
		{h.pid, "subject found"}, {h.child, "subject found"}, {os.Getpid(), "generator found"}, {h.child, "subject gone"},
	} {
		if !slices.Contains(events, want) {
			t.Errorf("%v is missing in %v", want, events)
		}
	}
	if len(events) != 4 {
		t.Errorf("events %v", events)
	}
	var spun bool
	for _, r := range rowsOf[record.ProcessRow](out) {
		if r.PID != h.pid || r.TNs > 15e9 {
			continue
		}
		spun = true
		if r.CPUNs < 25e6 || r.WidthNs < 9e9 || r.WidthNs > 11e9 || len(r.Busiest) == 0 {
			t.Errorf("30 ms of work: %+v", r)
		}
		if o.t.hasSchedstat() && (r.RunNs < 25e6 || r.Busiest[0].RunNs < 10e6 || r.QueueNs < 0) {
			t.Errorf("30 ms of work by thread: %+v", r)
		}
	}
	if !spun {
		t.Error("no row of the server")
	}
	var counted bool
	for _, r := range rowsOf[record.ListenerRow](out) {
		for _, p := range r.Connections {
			counted = true
			if want := map[bool]int{true: 1}[p.PID == h.pid]; p.Connections != want {
				t.Errorf("process %d holds %d connections, want %d", p.PID, p.Connections, want)
			}
		}
		if len(r.Listeners) != 1 || r.Listeners[0].Addr != h.addr.String() || !slices.Contains(r.Listeners[0].PIDs, h.pid) {
			t.Errorf("%+v", r)
		}
	}
	if !counted {
		t.Error("connections were not counted by process")
	}
}

// The second sample reads states and switches into the process's row.
func TestThreadStatesAndSwitches(t *testing.T) {
	needs.Time(t)
	h := startHelper(t)
	o := newObserver(t, Config{TargetAddr: h.addr})
	out := &collect{t: t}
	for i := range int64(8) {
		h.order("spin")
		o.Sample(i*10e9, out.emit)
	}
	var states, switches bool
	for _, r := range rowsOf[record.ProcessRow](out) {
		if r.PID != h.pid {
			continue
		}
		if n := r.States; n.Running+n.Sleeping+n.Disk+n.Other > 0 {
			states = true
			// A thread may end between the list of threads and its state.
			if all := n.Sleeping + n.Running + n.Disk + n.Other; n.Sleeping == 0 || all > r.ThreadsRead || all < r.ThreadsRead-1 {
				t.Errorf("states %+v of %d threads", n, r.ThreadsRead)
			}
		}
		if r.SwitchesNs > 0 && r.Voluntary > 0 {
			switches = true
			if r.OpenFiles < 4 {
				t.Errorf("open files %d", r.OpenFiles)
			}
		}
	}
	if !states || !switches {
		t.Errorf("states %v switches %v", states, switches)
	}
}

func TestObserverSaysWhatItCannotSee(t *testing.T) {
	checkDescriptors(t)
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	l.Close()
	o := newObserver(t, Config{TargetAddr: addr, SubjectPIDs: []int{1 << 30}})
	find := func(what string) string {
		for _, n := range o.NotMeasured() {
			if n.What == what && n.Host == "here" {
				return n.Why
			}
		}
		return ""
	}
	if why := find("subject"); !strings.Contains(why, "nothing listens on "+addr.String()) {
		t.Errorf("subject: %q", why)
	}
	if find("process 1073741824") == "" || find("irq") != "lo has no interrupts" {
		t.Errorf("%+v", o.NotMeasured())
	}
	// A source that fails half-way is lost, with the time, and the others go on.
	out := &collect{t: t}
	o.Sample(0, out.emit)
	syscall.Close(o.stat.fd)
	o.stat.fd = -1
	o.Sample(10e9, out.emit)
	o.Sample(20e9, out.emit)
	lost := 0
	for _, n := range o.NotMeasured() {
		if n.What == "cpu" {
			lost++
			if n.TNs < 10e9 || n.TNs > 11e9 || !strings.Contains(n.Why, "bad file descriptor") {
				t.Errorf("%+v", n)
			}
		}
	}
	if lost != 1 || len(rowsOf[record.CPURow](out)) != 0 || len(rowsOf[record.TCPRow](out)) != 2 {
		t.Errorf("lost %d times; %d rows of tcp", lost, len(rowsOf[record.TCPRow](out)))
	}
}

func TestRunReportsItsCost(t *testing.T) {
	needs.Time(t)
	checkDescriptors(t)
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, l, 8)
	o := newObserver(t, Config{TargetAddr: addr, GeneratorPID: os.Getpid()})
	out := &collect{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began := time.Now()
	o.Run(ctx, func() int64 { return int64(time.Since(began)) }, func(row record.ObservedRow) {
		out.emit(row)
		if row.Observed().Kind == record.KindObserver {
			cancel()
		}
	})
	report := rowsOf[record.ObserverRow](out)
	if len(report) != 1 || report[0].CPUNs <= 0 || report[0].CPUNs > o.Cost() || len(report[0].Sources) < 8 || report[0].Samples < 2 {
		t.Fatalf("%+v, in all %d", *report[0], o.Cost())
	}
	// However late the thread came, the rows join: each begins where the one before it ended.
	rows := rowsOf[record.CPURow](out)
	for i, r := range rows {
		if len(r.Cores) == 0 || r.WidthNs <= 0 || i > 0 && r.TNs-r.WidthNs != rows[i-1].TNs {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if len(rows) < 2 {
		t.Errorf("%d rows of CPU times in a second", len(rows))
	}
	moments := 0
	for _, r := range rowsOf[record.SocketsRow](out) {
		moments += r.Moments
	}
	// 100 a second, by chance; on a host that is busy with other things fewer.
	if moments < 20 {
		t.Errorf("%d moments in a second", moments)
	}
}

func TestAnotherNetworkNamespace(t *testing.T) {
	needs.Root(t)
	if os.Getuid() != 0 {
		t.Fatal("joining a namespace takes CAP_SYS_ADMIN: run this test as root")
	}
	checkDescriptors(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=child")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	defer func() { hold.Close(); cmd.Wait() }()
	l, addr := listen(t, "tcp4", "127.0.0.1:0") // the same port listens here, and not there
	connect(t, l, 3)
	o := newObserver(t, Config{TargetAddr: addr, NetNSPID: cmd.Process.Pid})
	out := &collect{t: t}
	o.Sample(0, out.emit)
	o.Sample(10e9, out.emit)
	for _, r := range rowsOf[record.SocketsRow](out) {
		if r.Client.Sockets+r.Server.Sockets != 0 {
			t.Errorf("sockets of this namespace: %+v", r)
		}
	}
	if n := len(rowsOf[record.SocketsRow](out)); n != 2 {
		t.Errorf("%d rows; not measured: %+v", n, o.NotMeasured())
	}
	for _, r := range rowsOf[record.TCPRow](out) {
		if r.CurrEstab != 0 {
			t.Errorf("connections of this namespace: %+v", r)
		}
	}
}

// Each sampler by itself allocates nothing but its rows once it is warm: each with at most two lists,
// and one that turns out to be empty.
func TestSamplersAllocateOnlyRows(t *testing.T) {
	needs.Time(t)
	const runs = 20
	l, addr := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, l, 20)
	path := filepath.Join(t.TempDir(), "s")
	ul, _ := listen(t, "unix", path)
	connect(t, ul, 5)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, cfg := range []Config{{TargetAddr: addr, GeneratorPID: os.Getpid()}, {TargetUnix: path}} {
		o := newObserver(t, cfg)
		rows := 0
		emit := func(record.ObservedRow) { rows++ }
		now := int64(0)
		for range 3 {
			now += 6e9
			o.Sample(now, emit)
		}
		for _, r := range o.rounds() {
			for _, s := range r.sources {
				at := tick{host: "here", tNs: now, widthNs: 1e8}
				if of, ok := s.sampler.(*socketSampler); ok {
					of.listAtNs = math.MaxInt64 // a list makes a new roster: the looker's thread may read the last one
				}
				rows = 0
				allocs := testing.AllocsPerRun(runs, func() {
					if err := s.sampler.sample(at, emit); err != nil {
						t.Fatal(err)
					}
					at.tNs += 1e8
				})
				// A CPU row that adds up wrong is explained in words, and these are not 100 ms
				// wide; attaching programs makes links, a few times a second.
				if allocs > 1+3*float64(rows)/(runs+1) && s.name != "cpu" && s.name != "kernel events" {
					t.Errorf("%s: %v allocations for %d rows in %d samples", s.name, allocs, rows, runs+1)
				}
			}
		}
	}
}

func TestParsersDoNotAllocate(t *testing.T) {
	names := newInterned()
	names.of([]byte("virtio3-rx"))
	var stat sys.Stat
	var soft softirqSample
	var irq irqSample
	var p psiTotals
	var lines []softnetLine
	var devs []netDev
	ext := newCounterTable("TcpExt: ", tcpCounterNames()[:firstSNMP])
	all := func(int, []byte) bool { return true }
	check := func(name string, f func(text []byte) error) {
		t.Helper()
		text := fixture(t, name)
		if err := f(text); err != nil {
			t.Fatal(name, err)
		}
		if n := testing.AllocsPerRun(10, func() { f(text) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	check("cpus128/stat.0", func(b []byte) error { return sys.ParseStat(b, &stat) })
	check("cpus128/softirqs.0", func(b []byte) error { return parseSoftirqs(b, &soft) })
	check("cpus128/interrupts.0", func(b []byte) error { return parseInterrupts(b, names, all, &irq) })
	check("cpus128/softnet_stat.0", func(b []byte) (err error) { lines, err = parseSoftnet(b, lines); return err })
	check("vm2/net_dev", func(b []byte) (err error) { devs, err = parseNetDev(b, names, devs); return err })
	check("vm2/netstat", ext.parse)
	check("vm2/pressure_cpu", func(b []byte) error { return parsePSI(b, &p) })
}

func BenchmarkParseStat128(b *testing.B) {
	text := fixture(b, "cpus128/stat.0")
	var s sys.Stat
	b.ReportAllocs()
	for b.Loop() {
		if err := sys.ParseStat(text, &s); err != nil {
			b.Fatal(err)
		}
	}
}
