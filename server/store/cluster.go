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
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"ceiling/internal/process"
	"ceiling/internal/scratch"
)

const (
	clusterUser = "ceiling"

	// clusterWithin limits the start of a cluster, normally a second or two, on a machine that
	// may be busy.
	clusterWithin = 30 * time.Second
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
	*process.Process
	room *scratch.Dir
	as   *syscall.Credential // its user; nil: this process's own
}

// startCluster creates and starts a cluster. It exits with this process, in whatever way.
func (d *Database) startCluster(ctx context.Context) error {
	bin, err := Installed()
	if err != nil {
		return err
	}
	c := &cluster{}
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
		return nil, errors.New("PostgreSQL does not run as root, and user postgres does not exist: adduser --system postgres")
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
	p, err := c.command(bin, "initdb", syscall.SIGKILL, "-U", clusterUser, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8",
		"--no-instructions").Start()
	if err == nil {
		err = p.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("make a PostgreSQL cluster: initdb: %w", err)
	}
	return nil
}

// command is one of PostgreSQL's programs for the cluster's files.
func (c *cluster) command(bin, name string, death syscall.Signal, args ...string) *process.Command {
	return &process.Command{Name: filepath.Join(bin, name), Args: append([]string{"-D", c.data()}, args...), Dir: c.room.Path, As: c.as,
		Death: death}
}

// start starts the server. It ends by an immediate shutdown, without a checkpoint, since its files
// are deleted with it.
func (c *cluster) start(bin string) (err error) {
	c.Process, err = c.command(bin, "postgres", syscall.SIGQUIT, "-c", "listen_addresses=", "-c", "unix_socket_directories="+c.room.Path,
		"-c", "unix_socket_permissions=0777").Start()
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// ready waits until the server accepts connections.
func (c *cluster) ready(ctx context.Context, source string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterWithin)
	defer cancel()
	_, err := c.Await(ctx, func() bool {
		conn, err := pgx.Connect(ctx, source)
		return err == nil && conn.Close(ctx) == nil
	})
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

func (c *cluster) remove() error {
	c.Stop()
	return c.room.Remove()
}
