//go:build linux

package run

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/needs"
	"ceiling/record"
	"ceiling/verdict/prose"
)

// secretsOf the spec below: what stands in its fields, its query and its body, and
// what a server repeats of them.
func secretsOf() []string {
	return []string{"Alpha1secret", "Bravo2secret", "Charly3secret", "Delta4secret", "Echo5secret"}
}

// repeating is a server that answers every request with what it was sent, as an
// error, and remembers the first of them.
func repeating(t *testing.T) (url string, first func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprintf("no %s %s %s %s", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Cookie"),
			r.URL.RawQuery, body)
		mu.Lock()
		if seen == "" {
			seen = text
		}
		mu.Unlock()
		http.Error(w, text, http.StatusUnauthorized)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String(), func() string { mu.Lock(); defer mu.Unlock(); return seen }
}

func secretSpec(url string) spec.Spec {
	return spec.Spec{
		Targets: []spec.Target{{Method: "POST", URL: url + "/x?access_token=Alpha1secret", Weight: 1, Body: []byte("Bravo2secret"),
			Header: []spec.Field{{Name: "Authorization", Value: "Bearer Charly3secret"}, {Name: "Cookie", Value: "sid=Delta4secret"}}}},
		Condition: spec.Condition{Connections: 2, Pipelining: 1}, Duration: 200 * time.Millisecond, Timeout: time.Second,
		Settings: spec.Settings{Engine: spec.EngineAuto, NoLone: true}, Common: spec.Common{Pprof: "off"},
	}
}

// found are the secrets in everything under a directory, with the kind of line that
// they are in.
func found(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		var in io.Reader = file
		if filepath.Ext(path) == ".gz" {
			if in, err = gzip.NewReader(file); err != nil {
				return err
			}
		}
		text, err := io.ReadAll(in)
		for line := range bytes.Lines(text) {
			var head struct{ Kind string }
			if err := json.Unmarshal(line, &head); err != nil {
				return err
			}
			for _, s := range secretsOf() {
				if bytes.Contains(line, []byte(s)) {
					list = append(list, head.Kind+" "+s)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSecretsDoNotLeaveTheRun(t *testing.T) {
	needs.Engine(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	url, first := repeating(t)
	var outside bytes.Buffer
	var mu sync.Mutex // callbacks come from several goroutines
	tell := func(what any) {
		mu.Lock()
		defer mu.Unlock()
		if err := json.NewEncoder(&outside).Encode(what); err != nil {
			t.Error(err)
		}
	}
	dirs := []string{filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "run")}
	var lines []string
	for _, dir := range dirs {
		options := Options{
			Out: dir, Command: []string{"ceiling", "run", "--pprof", "http://u:Echo5secret@h:4318", "-H", "Authorization: Bearer Charly3secret"},
		}
		options.Listen(func(e Event) {
			if e.Progress != nil {
				tell(e.Progress.Row)
			} else {
				tell(e)
			}
		})
		done, err := Do(t.Context(), secretSpec(url), options)
		if err != nil || done.KeepErr != nil {
			t.Fatal(err, done)
		}
		tell(done.Run)
		if list := found(t, dir); len(list) > 0 {
			t.Errorf("in the record: %q", list)
		}
		if len(done.Run.ErrorResponses) != 1 || done.Run.ErrorResponses[0].Line == "" {
			t.Fatalf("error responses %+v", done.Run.ErrorResponses)
		}
		lines = append(lines, fmt.Sprint(done.Run.ErrorResponses[0].Line, done.Run.Target, done.Run.Command))
	}
	for _, s := range secretsOf() {
		if strings.Contains(outside.String(), s) {
			t.Errorf("%s was told", s)
		}
	}
	if lines[0] != lines[1] || !strings.Contains(lines[0], "hidden-") {
		t.Errorf("equal secrets of two runs look different:\n%s\n%s", lines[0], lines[1])
	}
	if got := first(); got != "no Charly3secret sid=Delta4secret access_token=Alpha1secret Bravo2secret" {
		t.Errorf("the server was sent %q", got)
	}
}

func TestSecretsAreKeptWhereAsked(t *testing.T) {
	needs.Engine(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	url, _ := repeating(t)
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Do(t.Context(), secretSpec(url), Options{Out: dir, KeepSecrets: true}); err != nil {
		t.Fatal(err)
	}
	list := found(t, dir)
	for _, want := range []string{"run Alpha1secret", "run Charly3secret", "result Delta4secret"} {
		if !slices.Contains(list, want) {
			t.Errorf("no %s among %q", want, list)
		}
	}
	if r, _, err := record.Open(record.File{Path: dir}); err != nil || string(r.Spec.Targets[0].Body) != "Bravo2secret" {
		t.Errorf("the body is not kept: %v", err)
	}
}

// TestKeyThatCannotBeKeptIsSaid: values are hidden all the same.
func TestKeyThatCannotBeKeptIsSaid(t *testing.T) {
	needs.Engine(t)
	t.Setenv("XDG_DATA_HOME", filepath.Join(t.TempDir(), "file"))
	if err := os.WriteFile(os.Getenv("XDG_DATA_HOME"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := repeating(t)
	dir := filepath.Join(t.TempDir(), "run")
	done, err := Do(t.Context(), secretSpec(url), Options{Out: dir})
	if err != nil {
		t.Fatal(err)
	}
	said := slices.ContainsFunc(done.Run.NotMeasured,
		func(n record.NotMeasured) bool { return strings.Contains(n.Why, "the key of hidden values") && n.Part })
	if list := found(t, dir); len(list) > 0 || !said {
		t.Errorf("said %v; in the record: %q", said, list)
	}
}

func TestPlanWithoutItsSecrets(t *testing.T) {
	needs.Engine(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	url, _ := repeating(t)
	e := spec.Experiment{Kind: spec.KindSweep, Servers: []spec.Server{{URL: url}}, Repeats: 1,
		Requests: []spec.Mix{{MixRequest: spec.MixRequest{
			Path: "/x?access_token=Alpha1secret", Header: []string{"Authorization: Bearer Charly3secret", "Cookie: sid=Delta4secret"},
			Body: "Bravo2secret"}}},
		Load: spec.Load{Lists: spec.Lists{Connections: []spec.Count{1, 2}}, Duration: spec.Time(100 * time.Millisecond),
			Common: spec.Common{Pprof: "off"}, Settings: spec.Settings{NoLone: true}}}
	e.Complete(1)
	for _, keep := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "plan")
		ctx, stop := context.WithCancel(t.Context())
		var told []string
		p, _, err := Explore(ctx, e, Options{Out: dir, KeepSecrets: keep},
			func(_ record.Measured, doing string) { told = append(told, doing); stop() })
		if err != nil || p.Ended != record.EndedInterrupted || p.Hidden == keep {
			t.Fatalf("ended %s, hidden %v, %v", p.Ended, p.Hidden, err)
		}
		if list := found(t, dir); (len(list) > 0) != keep {
			t.Errorf("keep %v: in the plan: %q", keep, list)
		}
		if strings.Contains(fmt.Sprint(told), "Alpha1secret") != keep {
			t.Errorf("keep %v: told %q", keep, told)
		}
		q, _, err := Resume(t.Context(), record.File{Path: dir}, Options{}, nil)
		if !keep {
			if !errors.Is(err, exit.ErrRefused) || !strings.Contains(err.Error(), "--keep-secrets") || !strings.Contains(prose.Text(p.Because), "--keep-secrets") {
				t.Errorf("resumed without its secrets: %v; because %s", err, prose.Text(p.Because))
			}
			continue
		}
		if err != nil || len(q.Runs) != 2 || len(found(t, dir)) == 0 {
			t.Errorf("not resumed with its secrets: %v", err)
		}
	}
}
