package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"ceiling/internal/scratch"
)

const (
	clusterUser = "ceiling"

	// clusterWithin limits the start of a cluster, normally a second or two, on a machine that
	// may be busy.
	clusterWithin = 30 * time.Second
	clusterKnock  = 20 * time.Millisecond

	// clusterKillAfter is how long an immediate shutdown of a cluster may take.
	clusterKillAfter = 3 * time.Second
)

// Installed returns the directory of PostgreSQL's programs, the newest if there are several:
// Debian's are not in the PATH.
func Installed() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is valid
	best, dir := -1.0, ""
	for _, name := range found {
		bin := filepath.Dir(name)
		if v, err := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64); err == nil && v > best {
			best, dir = v, bin
		}
	}
	if dir != "" {
		return dir, nil
	}
	if name, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(name), nil
	}
	return "", errors.New("PostgreSQL's server is not installed (apt-get install postgresql); install it, or name a running one: " +
		"--db postgres://USER@HOST/DATABASE")
}

// A cluster is a PostgreSQL started by this process, reached over a socket in its directory.
type cluster struct {
	room  *scratch.Dir
	as    *syscall.Credential // its user; nil: this process's own
	cmd   *exec.Cmd
	said  lines
	ended chan struct{} // closed when it has exited
}

// startCluster creates and starts a cluster. It exits with this process, in whatever way.
func (d *Database) startCluster(ctx context.Context) error {
	bin, err := Installed()
	if err != nil {
		return err
	}
	c := &cluster{ended: make(chan struct{})}
	parent := os.TempDir()
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if c.as, err = postgresUser(); err != nil {
			return err
		}
		parent = reachable(parent)
	}
	if c.room, err = newRoom(parent); err != nil {
		return err
	}
	d.discard = c.room.Remove
	if err := c.init(ctx, bin); err != nil {
		return err
	}
	if err := c.start(bin); err != nil {
		return err
	}
	d.discard = c.remove
	d.source = "postgres:///postgres?" + url.Values{"host": {c.room.Path}, "user": {clusterUser}}.Encode()
	return c.ready(ctx, d.source)
}

// postgresUser is the user created by Debian's package.
func postgresUser() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres to run it as: make one (adduser --system postgres)")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// reachable returns the first temporary directory accessible to every user: ours may be below one
// that only root can enter.
func reachable(dir string) string {
	for _, candidate := range []string{dir, "/var/tmp", "/tmp"} {
		open := true
		for at := filepath.Clean(candidate); at != "/" && open; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			open = err == nil && info.Mode().Perm()&0o001 != 0
		}
		if open {
			return candidate
		}
	}
	return dir
}

func (c *cluster) data() string { return filepath.Join(c.room.Path, "data") }

// init creates the cluster's files, without syncing them.
func (c *cluster) init(ctx context.Context, bin string) error {
	if c.as != nil {
		if err := os.Chown(c.room.Path, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", c.data(), "-U", clusterUser, "-A", "trust", "--no-sync",
		"--locale=C", "-E", "UTF8", "--no-instructions")
	cmd.Dir = c.room.Path
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		var said lines
		_, _ = said.Write(out)
		return fmt.Errorf("make a PostgreSQL cluster: initdb: %w: %s", err, said.last())
	}
	return nil
}

// start starts the server, on a thread that lives as long.
func (c *cluster) start(bin string) error {
	c.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", c.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories="+c.room.Path,
		"-c", "unix_socket_permissions=0777")
	c.cmd.Dir = c.room.Path
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	// A separate group shields it from the terminal's interrupt until we stop it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // the error is in said
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// ready waits until the server accepts connections.
func (c *cluster) ready(ctx context.Context, source string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterWithin)
	defer cancel()
	knock := time.NewTicker(clusterKnock)
	defer knock.Stop()
	for {
		conn, err := pgx.Connect(ctx, source)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			return fmt.Errorf("start PostgreSQL: it ended: %v: %s", c.cmd.ProcessState, c.said.last())
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w: %s", ctx.Err(), c.said.last())
		case <-knock.C:
		}
	}
}

// remove stops the server without a checkpoint, since its files are deleted.
func (c *cluster) remove() error {
	_ = c.cmd.Process.Signal(syscall.SIGQUIT) // fails if it has exited
	select {
	case <-c.ended:
	case <-time.After(clusterKillAfter):
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		<-c.ended
	}
	return c.room.Remove()
}

// lines keeps the end of a program's output.
type lines struct {
	mu   sync.Mutex
	text []byte
}

const linesKept = 4096

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if extra := len(l.text) - linesKept; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(b), nil
}

// last returns the last line, for an error.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(string(l.text))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
