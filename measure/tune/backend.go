//go:build linux

package tune

import (
	"bytes"
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
)

// backend is all that touches the host: values, and the journal that notes them. Tests wrap it to
// be killed, or to fail, at any step.
type backend interface {
	read(kind, path string) (string, error)
	write(kind, path, value string) error
	// note appends a line to a file and syncs it to disk.
	note(file *os.File, line []byte) error
}

var (
	errReadOnly    error = syscall.EROFS
	errInvalid     error = syscall.EINVAL
	errIO          error = syscall.EIO
	errUnsupported error = syscall.EOPNOTSUPP
)

func (h *Host) backend() backend {
	if h.back != nil {
		return h.back
	}
	return machine{h.root()}
}

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
		return readNIC(m.root, path)
	case KindService:
		return m.service(path)
	}
	data, err := os.ReadFile(filepath.Join(m.root, path))
	if kind == KindFile {
		return string(data), err
	}
	return strings.Join(strings.Fields(string(data)), " "), err
}

func (m machine) write(kind, path, value string) error {
	switch kind {
	case KindNIC:
		return writeNIC(m.root, path, value)
	case KindService:
		return m.setService(path, value)
	case KindFile:
		return writeFile(filepath.Join(m.root, path), value)
	}
	// A kernel file is never created, and takes a value in one write.
	f, err := os.OpenFile(filepath.Join(m.root, path), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// writeFile replaces a file atomically. "" removes it: a tuning never leaves an empty one.
func writeFile(path, text string) error {
	part := path + ".part"
	if text == "" {
		for _, name := range []string{path, part} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(part, []byte(text), 0o644); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// States of a service.
const (
	running = "running"
	stopped = "stopped"
)

// service looks for the daemon among the processes: a container, or a machine without systemd, may
// run it too. Its process has the name of its unit.
func (m machine) service(name string) (string, error) {
	if processNamed(os.DirFS(m.root), name) > 0 {
		return running, nil
	}
	return stopped, nil
}

// processNamed returns a process with that name, 0: none.
func processNamed(root fs.FS, name string) (pid int) {
	names, err := fs.Glob(root, "proc/[0-9]*/comm")
	if err != nil {
		return 0 // the pattern is a constant
	}
	for _, path := range names {
		text, err := fs.ReadFile(root, path)
		if err == nil && strings.TrimSpace(string(text)) == name {
			if _, err := fmt.Sscanf(path, "proc/%d/", &pid); err == nil {
				return pid
			}
		}
	}
	return 0
}

// serviceTime bounds systemctl, and the time for the daemon to end.
const serviceTime = 10 * time.Second

func (m machine) setService(name, value string) error {
	verb := "start"
	if value == stopped {
		verb = "stop"
	}
	if m.root != "/" {
		return errors.New("services are those of this host only")
	}
	program, err := exec.LookPath("systemctl")
	if err != nil {
		return fmt.Errorf("no systemctl here to %s %s (process %d); %[1]s it by hand and apply again", verb, name,
			processNamed(os.DirFS(m.root), name))
	}
	ctx, cancel := context.WithTimeout(context.Background(), serviceTime)
	defer cancel()
	if text, err := exec.CommandContext(ctx, program, verb, name+".service").CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s %s: %w: %s", verb, name, err, bytes.TrimSpace(text))
	}
	for end := time.Now().Add(serviceTime); ; time.Sleep(50 * time.Millisecond) {
		now, err := m.service(name)
		if err != nil || now == value {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("systemctl %s %s: it is still %s after %s", verb, name, now, serviceTime)
		}
	}
}
