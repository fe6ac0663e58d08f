// Package browser drives Debian's headless chromium from tests: it opens a
// page, runs script in it, and tells what the page wrote to its console and
// what it asked the network for. Nothing but the loopback can be reached from
// it: every other name fails to resolve.
//
// It speaks the DevTools protocol over two pipes (--remote-debugging-pipe), so
// that it needs neither a port nor a websocket library. Everything that goes
// wrong ends the test that asked for it.
package browser

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long one call may take. A busy machine with two cores takes
// up to ten seconds to start the browser; what takes longer than this hangs.
const patience = 2 * time.Minute

// Browser is a running chromium with a profile of its own.
type Browser struct {
	t    testing.TB
	conn *conn
}

// Start starts a browser and ends it with the test. Where there is none the
// test fails, with the remedy.
func Start(t testing.TB) *Browser {
	t.Helper()
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "ceiling-browser-")
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	t.Cleanup(func() { remove(t, profile) })
	cmd := exec.Command(path, flags(profile)...)
	// A group of its own, so that its helpers can be ended with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var talk tail
	cmd.Stderr = &talk
	to, from, err := pipes(cmd)
	if err != nil {
		t.Fatalf("start browser: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start browser: %v", err)
	}
	for _, end := range cmd.ExtraFiles { // the child has them now
		end.Close()
	}
	b := &Browser{t: t, conn: newConn(to, from)}
	t.Cleanup(func() { b.stop(cmd) })
	var version struct {
		Product string `json:"product"`
	}
	if err := b.conn.call("", "Browser.getVersion", nil, &version); err != nil {
		t.Fatalf("start browser: %v; it said: %s", err, talk.String())
	}
	t.Logf("browser: %s", version.Product)
	return b
}

// find looks for chromium under the names that Debian and others give it.
func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("start browser: no chromium here; on Debian: make deps, or apt-get install chromium")
}

// flags of a browser that keeps to itself. profile is its own new directory.
func flags(profile string) []string {
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + profile,
		"--remote-debugging-pipe",
		// Containers have a /dev/shm of 64 MB, which a large page fills.
		"--disable-dev-shm-usage",
		"--no-default-browser-check", "--disable-default-apps", "--disable-extensions", "--disable-crash-reporter", "--disable-breakpad",
		"--metrics-recording-only", "--mute-audio", "--hide-scrollbars", "--font-render-hinting=none",
		// A page in the background would have its timers slowed down.
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,DialMediaRouteProvider",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]",
		"--no-proxy-server",
		"about:blank",
	}
}

// pipes gives the command its descriptors 3 (it reads) and 4 (it writes) and
// answers the other ends.
func pipes(cmd *exec.Cmd) (to io.WriteCloser, from io.ReadCloser, err error) {
	childReads, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	from, childWrites, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.ExtraFiles = []*os.File{childReads, childWrites}
	return to, from, nil
}

// stop asks the browser to end and, where it does not, ends its group.
func (b *Browser) stop(cmd *exec.Cmd) {
	_ = b.conn.send("", "Browser.close", nil) // it may be gone already
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // its exit code tells nothing: it was told to end
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
	}
	// Its own group: helpers that outlived it are in it, nobody else is.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		b.t.Errorf("stop browser: %v", err)
	}
	<-ended
	b.conn.close()
}

// remove deletes the profile. Helpers that were killed a moment ago may still
// close a file in it, so a few refusals are no failure.
func remove(t testing.TB, profile string) {
	var err error
	for range 50 {
		if err = os.RemoveAll(profile); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("stop browser: %v", err)
}

// tail keeps the last 4 KiB of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - keep; over > 0 {
		t.last = t.last[over:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%q", bytes.TrimSpace(t.last))
}
