package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/process"
	"ceiling/measure/netns"
)

// dialInterval is the timeout of a connect to a starting server.
const dialInterval = 20 * time.Millisecond

// serverOn starts a server's command on a free loopback port and returns its base URL once it
// accepts connections. The command runs in a shell, in its own process group, on some CPUs only;
// nil: those of this process.
func serverOn(ctx context.Context, s *spec.Server, cpus []int) (*Child, string, error) {
	addr, err := FreeAddress()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	return serverAt(ctx, s, addr, cpus, nil)
}

// StartServerAt starts a command whose address is in a file that was written before: host:port of
// the loopback, as FreeAddress returns it. It returns the server's base URL once it accepts
// connections.
func StartServerAt(ctx context.Context, s *spec.Server, addr string) (*Child, string, error) {
	return serverAt(ctx, s, addr, nil, nil)
}

// serverAt does the same in a network namespace; nil: this process's.
func serverAt(ctx context.Context, s *spec.Server, addr string, cpus []int, in *netns.Namespace) (*Child, string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	cmd := &process.Command{Name: "sh", Args: []string{"-c", command(s.Serve, addr, exe)}, Dir: s.Dir, CPUs: cpus, Ready: servesAt, Group: true}
	if in != nil {
		cmd.Name, cmd.Args = in.Within(cmd.Name, cmd.Args...)
	}
	cmd.Env = append([]string{"ADDR=" + addr, "HOST=" + host, "PORT=" + port}, s.Env...)
	p, err := cmd.Start()
	if err == nil {
		addr, err = ready(ctx, p, addr, strings.HasPrefix(s.Serve, "ceiling "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", s.Label(), err)
	}
	return &Child{p, addr}, baseAt(s, addr), nil
}

// baseAt returns the URL of a server at the address that it reports, which has the scheme if that is
// not http.
func baseAt(s *spec.Server, addr string) string {
	switch {
	case strings.Contains(addr, "://"):
		return addr
	case s.TLS:
		return "https://" + addr
	}
	return "http://" + addr
}

// command substitutes the address and this program in a server's command.
func command(text, addr, exe string) string {
	host, port, _ := strings.Cut(addr, ":")
	if rest, own := strings.CutPrefix(text, "ceiling "); own {
		text = "exec '" + strings.ReplaceAll(exe, "'", `'\''`) + "' " + rest
	}
	return strings.NewReplacer("{addr}", addr, "{host}", host, "{port}", port).Replace(text)
}

// ready waits until the server reports its address or, if it need not, until the given address
// accepts connections, and returns the address.
func ready(ctx context.Context, p *process.Process, addr string, says bool) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf(
		"nothing accepts on %s after %s; put {addr} where the command takes its address, or let it read PORT", addr, startTimeout))
	defer cancel()
	told, err := p.Await(ctx, func() bool { return !says && accepts(addr) })
	return cmp.Or(told, addr), err
}

func accepts(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, dialInterval)
	if err != nil {
		return false
	}
	// An error in closing a probe does not matter.
	_ = conn.Close()
	return true
}

// FreeAddress returns a loopback port on which nothing listens now.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().(*net.TCPAddr)
	return "127.0.0.1:" + strconv.Itoa(addr.Port), l.Close()
}

// insidePort is free in a new namespace.
const insidePort = "8080"

// servers are those of one experiment: running already, or started for it. It reuses one that it
// has started.
type servers struct {
	list []spec.Server
	dial *spec.Dial // to those that run already
	// started by index; the second instance of a server, for a comparison of A against A, by -1
	// minus its index.
	started map[int]started
	// cpus that they are started on; nil: those of this process.
	cpus []int
	// in is the network namespace that they are started in; nil: this process's.
	in *netns.Namespace
	// on is the machine that they are started on; nil: this one.
	on Host
}

// started is a server that was started, and its URL.
type started struct {
	Instance
	base string
}

// base returns the URL of a server, and starts it if needed.
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
	if c, is := v.started[key]; is {
		if err := c.Died(); err != nil {
			return "", fmt.Errorf("%s: %w", s.Label(), err)
		}
		return c.base, nil
	}
	c, base, err := v.start(ctx, s)
	if err != nil {
		return "", err
	}
	v.started[key] = started{c, base}
	return base, nil
}

// start starts a server where they are to run.
func (v *servers) start(ctx context.Context, s *spec.Server) (Instance, string, error) {
	switch {
	case v.on != nil:
		own, err := s.Own()
		if err != nil {
			return nil, "", err
		}
		c, addr, err := v.on.Start(ctx, own, v.cpus)
		return c, baseAt(s, addr), err
	case v.in != nil:
		return serverAt(ctx, s, net.JoinHostPort(v.in.Addr.String(), insidePort), v.cpus, v.in)
	}
	return serverOn(ctx, s, v.cpus)
}

// ended returns which of the started servers has ended.
func (v *servers) ended() error {
	for key, c := range v.started {
		if err := c.Died(); err != nil {
			return fmt.Errorf("%s: %w", v.list[max(key, -1-key)].Label(), err)
		}
	}
	return nil
}

// refuses reports whether the address of a server that was not started here takes no connections.
func (v *servers) refuses(index int, base string) error {
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
		return connecting(base, err)
	}
	return conn.Close()
}

// connecting words an error of a connection to a server.
func connecting(base string, err error) error {
	if here := local(err); here != err {
		return fmt.Errorf("no connection to %s: %w", base, here)
	}
	return fmt.Errorf("%s does not accept connections: %w", base, err)
}

// stop stops the started servers; base starts them again if needed.
func (v *servers) stop() {
	for _, c := range v.started {
		c.Stop()
	}
	clear(v.started)
}
