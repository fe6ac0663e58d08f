package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/lastline"
	"ceiling/measure/netns"
)

// knock is how long a connect to a server that starts may take, and how often
// it is tried.
const knock = 20 * time.Millisecond

// serverOn starts the command of a server on a free port of the loopback and
// returns once it accepts connections, with its base URL. The command runs in a
// shell, in a process group of its own, on some CPUs only; nil are those of this
// process.
func serverOn(ctx context.Context, s *spec.Server, cpus []int) (*Child, string, error) {
	addr, err := FreeAddress()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	return serverAt(ctx, s, addr, cpus, nil)
}

// StartServerAt starts a command whose address is in a file that was written
// before: host:port of the loopback, as FreeAddress returns it. It returns once the
// server accepts connections, with its base URL.
func StartServerAt(ctx context.Context, s *spec.Server, addr string) (*Child, string, error) {
	return serverAt(ctx, s, addr, nil, nil)
}

// serverAt starts it in a network namespace; nil is this one.
func serverAt(ctx context.Context, s *spec.Server, addr string, cpus []int, in *netns.Namespace) (*Child, string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	program, args := "sh", []string{"-c", command(s.Serve, addr, exe)}
	if in != nil {
		program, args = in.Within(program, args...)
	}
	cmd := exec.Command(program, args...)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	cmd.Env = append(append(os.Environ(), "ADDR="+addr, "HOST="+host, "PORT="+port), s.Env...)
	c := &Child{cpus: cpus, done: make(chan struct{}), errors: &lastline.Writer{}, group: true}
	started, told := make(chan error, 1), make(chan string, 1)
	go c.live(cmd, started, told)
	if err := <-started; err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	if c.Addr, err = c.ready(ctx, addr, strings.HasPrefix(s.Serve, "ceiling "), told); err != nil {
		c.Stop()
		return nil, "", fmt.Errorf("start %s: %w%s", s.Label(), err, c.itSaid())
	}
	return c, c.base(s), nil
}

// base is the child's URL. What it says of its address has the scheme where that is
// not http.
func (c *Child) base(s *spec.Server) string {
	switch {
	case strings.Contains(c.Addr, "://"):
		return c.Addr
	case s.TLS:
		return "https://" + c.Addr
	}
	return "http://" + c.Addr
}

// command puts the address and this program into a server's command.
func command(text, addr, exe string) string {
	host, port, _ := strings.Cut(addr, ":")
	if rest, own := strings.CutPrefix(text, "ceiling "); own {
		text = "exec '" + strings.ReplaceAll(exe, "'", `'\''`) + "' " + rest
	}
	return strings.NewReplacer("{addr}", addr, "{host}", host, "{port}", port).Replace(text)
}

// ready waits until the server says where it serves or, where it need not say
// so, somebody accepts at the address that it was given.
func (c *Child) ready(ctx context.Context, addr string, says bool, told <-chan string) (string, error) {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	again := time.NewTicker(knock)
	defer again.Stop()
	for {
		select {
		case addr := <-told:
			return addr, nil
		case <-c.done:
			return "", fmt.Errorf("it ended: %w", cmpErr(c.err))
		case <-timeout.C:
			return "", fmt.Errorf("nobody accepts on %s after %s; put {addr} where the command takes its address, or let it read PORT", addr,
				startTimeout)
		case <-ctx.Done():
			return "", ctx.Err()
		case <-again.C:
			if !says && accepts(addr) {
				return addr, nil
			}
		}
	}
}

func accepts(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, knock)
	if err != nil {
		return false
	}
	// What a probe's close says does not matter.
	_ = conn.Close()
	return true
}

// FreeAddress is a port of the loopback that nobody listens on now.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().(*net.TCPAddr)
	return "127.0.0.1:" + strconv.Itoa(addr.Port), l.Close()
}

// insidePort is free in a namespace of one's own.
const insidePort = "8080"

// servers are those of one experiment: what runs already, and what was started
// for it. One that is asked for again goes on.
type servers struct {
	list []spec.Server
	dial *spec.Dial // to those that run already
	// started by index; a second instance of a server, which a comparison of A
	// against A takes, by -1 minus its index.
	started map[int]*Child
	// cpus that they are started on; nil those of this process.
	cpus []int
	// in is the network namespace that they are started in; nil is this one.
	in *netns.Namespace
}

// base is the URL of a server, which is started where it has to be.
func (v *servers) base(ctx context.Context, index int, second bool) (string, error) {
	s := &v.list[index]
	if s.URL != "" {
		base, _, err := spec.SplitURL(s.URL)
		return base, err
	}
	key := index
	if second {
		key = -1 - index
	}
	if c := v.started[key]; c != nil {
		if c.Ended() {
			return "", fmt.Errorf("%s: it ended: %w%s", s.Label(), cmpErr(c.err), c.itSaid())
		}
		return c.base(s), nil
	}
	start := func() (*Child, string, error) { return serverOn(ctx, s, v.cpus) }
	if v.in != nil {
		start = func() (*Child, string, error) {
			return serverAt(ctx, s, net.JoinHostPort(v.in.Addr.String(), insidePort), v.cpus, v.in)
		}
	}
	c, base, err := start()
	if err != nil {
		return "", err
	}
	v.started[key] = c
	return base, nil
}

// ended says which of the servers is gone, of those that were started here, or
// whether nobody accepts at the address of another.
func (v *servers) ended(index int, base string) error {
	for key, c := range v.started {
		if c.Ended() {
			return fmt.Errorf("%s: it ended: %w%s", v.list[max(key, -1-key)].Label(), cmpErr(c.err), c.itSaid())
		}
	}
	if v.list[index].URL == "" {
		return nil
	}
	address, err := v.dial.Address(base)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout(address.Network, address.String(), time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing is listening on %s; start the server, or check the port (ss -ltn)", address)
	}
	if err != nil {
		return fmt.Errorf("%s does not accept connections: %w", base, err)
	}
	return conn.Close()
}

// stop ends what was started; one that is asked for again starts anew.
func (v *servers) stop() {
	for _, c := range v.started {
		c.Stop()
	}
	clear(v.started)
}
