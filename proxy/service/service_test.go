package service

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestReloadWarns: a reload warns of hidden locations as a start does.
func TestReloadWarns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.toml")
	const open = "listen = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\nworkers = 1\n[[locations]]\nid = \"first\"\n" +
		"[[locations.destinations]]\nuri = \"http://127.0.0.1:1\"\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(open)
	s, err := Open(Settings{Engine: "auto"}, file)
	if err != nil {
		t.Fatal(err)
	}
	lines, served := make(chan string, 16), make(chan struct{})
	s.Report = func(line string) { lines <- line }
	s.Announce = func(string) { close(served) }
	s.Output = t.Output()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	<-served
	admin, found := strings.CutPrefix(next(t, lines), "admin address ")
	if !found {
		t.Fatal(admin)
	}
	write(open + "[[locations]]\nid = \"late\"\n[[locations.destinations]]\nuri = \"http://127.0.0.1:1\"\n")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Post("http://"+admin+"/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if line := next(t, lines); r.StatusCode != 200 || !strings.Contains(line, `location "late" gets no request`) {
		t.Errorf("%s: %s", r.Status, line)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func next(t *testing.T, lines chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("no line")
		return ""
	}
}
