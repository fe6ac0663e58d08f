package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dashboard is what Grafana's has of queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// TestDashboard: a real Prometheus scrapes a run, and every query of the dashboard has an answer.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana/ceiling.json")), &d); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := background(t, dir, "", built(t, "ceiling"), "serve", "fasthttp", "--addr", "127.0.0.1:0")
	address := said(t, server, "serves on ")
	load := background(t, dir, "XDG_DATA_HOME="+dir, built(t, "ceiling"), "run", "--quiet", "-n", "30000", "--warmup", "0s", "-c", "4", "-R", "500",
		"--prometheus", "127.0.0.1:0", "http://"+address+"/read")
	metrics := strings.TrimSuffix(strings.TrimPrefix(said(t, load, "http://"), "http://"), "/metrics")
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(
		"global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: ceiling\n  static_configs: [{targets: [%q]}]\n", metrics), 0o600)
	prometheus := background(t, dir, "", "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0")
	api := "http://" + said(t, prometheus, `"Listening on" address=`)
	deadline := time.Now().Add(patience)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*").Replace(target.Expr)
			for answer := ""; answer == ""; time.Sleep(200 * time.Millisecond) {
				answer = ask(t, api, query)
				if answer == "" && time.Now().After(deadline) {
					t.Fatalf("%s: no answer to %s", panel.Title, query)
				}
			}
		}
	}
}

// ask returns the first value that a query has; "" for none yet.
func ask(t *testing.T, api, query string) string {
	t.Helper()
	answer, err := http.Get(api + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var got struct {
		Status, Error string
		Data          struct{ Result []struct{ Value []any } }
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || json.Unmarshal(body, &got) != nil {
		return ""
	}
	if got.Error != "" {
		t.Fatalf("%s: %s", query, got.Error)
	}
	if len(got.Data.Result) == 0 || len(got.Data.Result[0].Value) < 2 {
		return ""
	}
	return fmt.Sprint(got.Data.Result[0].Value[1])
}

// background starts a command, which ends with the test, and returns the file of what it prints.
func background(t *testing.T, dir, env, name string, args ...string) string {
	t.Helper()
	out, err := os.CreateTemp(dir, "out")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = dir, out, out
	if env != "" {
		c.Env = append(os.Environ(), env)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()
		_ = out.Close()
	})
	return out.Name()
}

// said waits for a word in what a command prints, and returns it with what follows up to a blank.
func said(t *testing.T, file, before string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if _, after, found := strings.Cut(read(t, file), before); found && strings.ContainsAny(after, " \n") {
			return strings.FieldsFunc(after, func(r rune) bool { return r == ' ' || r == '\n' })[0]
		}
	}
	t.Fatalf("it did not say %q: %s", before, read(t, file))
	return ""
}
