// Package browser drives Debian's headless chromium from tests: it opens a page, runs script in
// it, and returns the page's console messages and network requests. The browser can reach only
// the loopback: every other name fails to resolve.
//
// It speaks the DevTools protocol over two pipes (--remote-debugging-pipe), so it needs neither a
// port nor a websocket library. Any error fails the calling test.
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

// patience is the timeout of one call. A busy machine with two cores takes up to ten seconds to
// start the browser; a call that exceeds this timeout hangs.
const patience = 2 * time.Minute

// Browser is a running chromium with its own profile.
type Browser struct {
	t    testing.TB
	conn *conn
}

// Start starts a browser and stops it with the test. If none is installed the test fails and says
// how to install it.
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
	// A separate group, so that its helpers can be killed with it.
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

// find looks for chromium under Debian's and other common names.
func find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("start browser: no chromium here; on Debian: make deps, or apt-get install chromium")
}

// flags isolates the browser. profile is a new directory of its own.
func flags(profile string) []string {
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + profile,
		"--remote-debugging-pipe",
		// Containers have a 64 MB /dev/shm, which a large page fills.
		"--disable-dev-shm-usage",
		"--no-default-browser-check", "--disable-default-apps", "--disable-extensions", "--disable-crash-reporter", "--disable-breakpad",
		"--metrics-recording-only", "--mute-audio", "--hide-scrollbars", "--font-render-hinting=none",
		// Timers of a background page would be throttled.
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
		"--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,DialMediaRouteProvider",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]",
		"--no-proxy-server",
		"about:blank",
	}
}

// pipes gives the command its descriptors 3 (it reads) and 4 (it writes) and returns the other
// ends.
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

// stop asks the browser to exit and, if it does not, kills its group.
func (b *Browser) stop(cmd *exec.Cmd) {
	_ = b.conn.send("", "Browser.close", nil) // it may have exited already
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // we stopped it: the exit code is meaningless
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
	}
	// Its own group contains only helpers that outlived it.
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		b.t.Errorf("stop browser: %v", err)
	}
	<-ended
	b.conn.close()
}

// remove deletes the profile. Helpers just killed may still be closing a file in it, so it
// retries a few times.
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
