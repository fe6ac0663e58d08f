package tune

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/text"
)

// backend is all that touches the host: values, and the journal that notes them. Tests wrap it to
// be killed, or to fail, at any step.
type backend interface {
	read(kind, path string) (string, error)
	write(kind, path, value string) error
	// note appends a line to a file and syncs it to disk.
	note(file *os.File, line []byte) error
}

func (h *Host) backend() backend { return cmp.Or[backend](h.back, machine{h.root()}) }

// machine is the host itself.
type machine struct{ root string }

func (m machine) note(file *os.File, line []byte) error {
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

func (m machine) read(kind, path string) (string, error) {
	switch kind {
	case KindNIC:
		return m.nic(path, nil)
	case KindService:
		return m.service(path), nil
	}
	data, err := os.ReadFile(filepath.Join(m.root, path))
	return text.Line(string(data)), err
}

func (m machine) write(kind, path, value string) error {
	switch kind {
	case KindNIC:
		_, err := m.nic(path, &value)
		return err
	case KindService:
		return m.setService(path, value)
	}
	// A kernel file is never created, and takes a value in one write.
	f, err := os.OpenFile(filepath.Join(m.root, path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// nic reads a parameter of a NIC, or sets it.
func (m machine) nic(path string, to *string) (string, error) {
	if m.root != "/" {
		return "", absent("ethtool reaches the NICs of this host only")
	}
	return nicParam(path, to)
}

// States of a service.
const (
	running = "running"
	stopped = "stopped"
)

// service looks for the daemon among the processes: a container, or a machine without systemd, may
// run it too. Its process has the name of its unit.
func (m machine) service(name string) string {
	names, err := filepath.Glob(filepath.Join(m.root, "proc/[0-9]*/comm"))
	for _, path := range names {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == name {
			return running
		}
	}
	if err != nil {
		return "" // a root with a bracket
	}
	return stopped
}

// serviceTime bounds systemctl, and the time for the daemon to end.
const serviceTime = 10 * time.Second

func (m machine) setService(name, value string) error {
	verb := "start"
	if value == stopped {
		verb = "stop"
	}
	if m.root != "/" {
		return errors.New("services are on this host only")
	}
	program, err := exec.LookPath("systemctl")
	if err != nil {
		return fmt.Errorf("no systemctl here to %s %s; %[1]s it by hand and apply again", verb, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), serviceTime)
	defer cancel()
	if text, err := exec.CommandContext(ctx, program, verb, name+".service").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s %s: %w: %s", verb, name, err, bytes.TrimSpace(text))
	}
	for ; m.service(name) != value; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("systemctl %s %s: it is not %s after %s", verb, name, value, serviceTime)
		}
	}
	return nil
}

// read returns a change's current value. An absent file is "", with fs.ErrNotExist.
func (h *Host) read(c *Change) (string, error) {
	text, err := h.backend().read(c.Kind, c.Path)
	if err != nil {
		return "", fmt.Errorf("%s: read %s: %w", c, c.Path, reason(err))
	}
	return text, nil
}

func (h *Host) write(c *Change, value string) error {
	if err := h.backend().write(c.Kind, c.Path, value); err != nil {
		return fmt.Errorf("%s: set %s to %s: %w", c, c.Path, shown(value), reason(err))
	}
	return nil
}

// shown formats a value for a sentence.
func shown(value string) string {
	if first, _, more := strings.Cut(value, "\n"); more {
		return fmt.Sprintf("%q…", first)
	}
	if value == "" {
		return "nothing"
	}
	return value
}

// reason explains the usual cause of a kernel file's error.
func reason(err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EROFS):
		hint = "mounted read-only, as in a container; tune on the host itself"
	case errors.Is(err, fs.ErrPermission):
		hint = "only root may, and not in a container; run it with sudo on the host"
	case errors.Is(err, syscall.EINVAL):
		hint = "the kernel takes another range"
	case errors.Is(err, syscall.EIO):
		hint = "the kernel manages it and does not allow changes"
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
