package roadsign_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/proxy/service"
)

const password = "e81f43f32d934271af6322e5376f5f59"

// patience bounds what a test waits for. It is never part of a claim.
const patience = 60 * time.Second

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// bench is a proxy as a user starts it, with RoadSign's settings and regions.
type bench struct {
	t            *testing.T
	dir          string
	admin, proxy string
}

const settings = `
workers = 1
admin = "127.0.0.1:0"
[hypertext]
ports = ["127.0.0.1:0"]
[paths]
configs = "config"
[telemetry]
capture_traces = true
[publish]
upload_bytes = 150_000
unpacked_bytes = 200_000
[security]
credential = "` + password + `"
`

const example = `
id = "central"
[[locations]]
id = "files"
paths = ["/"]
queries = { token = "confidential", v = "*" }
headers = { Authorization = ["Bearer confidential"] }
[[locations.destinations]]
id = "never"
uri = "http://127.0.0.1:1/"
helmet = { x_frame_options = "SAMEORIGIN", hsts_max_age = 5 }
transformers = [{ type = "replacePath", options = { pattern = "/a", value = "/b" } }]
[[locations]]
id = "all"
[[locations.destinations]]
id = "www"
uri = "files://DIR/www"
[[applications]]
id = "web"
workdir = "DIR/app"
command = ["/bin/sh", "-c", "echo runs $(cat version) >>DIR/runs; echo runs $(cat version); exec sleep 1000", "--token", "confidential"]
environment = ["TOKEN=confidential", "MODE=production"]
[[applications]]
id = "homeless"
command = ["/bin/sleep", "1000"]
`

func start(t *testing.T, settings, region string) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	b.write("settings.toml", settings)
	b.write("config/central.toml", strings.ReplaceAll(region, "DIR", b.dir))
	b.write("www/index.html", "zero")
	b.write("app/version", "0")
	b.write("app/data/db", "precious")
	s, err := service.Open(service.Settings{Engine: "auto"}, filepath.Join(b.dir, "settings.toml"))
	if err != nil {
		t.Fatal(err)
	}
	addresses := make(chan string, 8)
	s.Output = io.Discard
	s.Announce = func(line string) { addresses <- line }
	s.Report = func(line string) { addresses <- line }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for b.admin == "" || b.proxy == "" {
		select {
		case line := <-addresses:
			if at, ok := strings.CutPrefix(line, "admin address "); ok {
				b.admin = "http://" + at
			} else if at, ok := strings.CutPrefix(line, "proxy serves on "); ok {
				b.proxy = "http://" + at
			}
		case err := <-ended:
			ended <- err
			t.Fatal(err)
		}
	}
	go func() {
		for {
			select {
			case <-addresses:
			case <-ctx.Done():
				return
			}
		}
	}()
	return b
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	name = filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// read returns a file's text, "" if there is none.
func (b *bench) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.dir, name))
	return string(text)
}

// names lists a directory.
func (b *bench) names(dir string) (names []string) {
	list, _ := os.ReadDir(filepath.Join(b.dir, dir))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func (b *bench) do(q *http.Request) (int, string) {
	b.t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(q)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (b *bench) request(method, path string, body io.Reader) *http.Request {
	b.t.Helper()
	q, err := http.NewRequest(method, b.admin+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	q.SetBasicAuth("RoadSign CLI", password)
	return q
}

// ask requests with the password, wants a status, and returns the body.
func (b *bench) ask(status int, method, path string, body string) string {
	b.t.Helper()
	got, text := b.do(b.request(method, path, strings.NewReader(body)))
	if got != status {
		b.t.Errorf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

// page returns what the proxy serves.
func (b *bench) page(path string) string {
	b.t.Helper()
	q, err := http.NewRequest("GET", b.proxy+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	status, text := b.do(q)
	if status != 200 {
		return http.StatusText(status)
	}
	return text
}

// field is one field of an upload; it is a file if it has a file name.
type field struct{ name, file, kind, text string }

func attached(text string) field { return field{"attachments", "dist.zip", "application/zip", text} }

// zipped returns a zip with one file per pair of name and text.
func zipped(t *testing.T, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for pair := range slices.Chunk(pairs, 2) {
		w, err := z.Create(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(pair[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func formOf(t *testing.T, fields ...field) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, f := range fields {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="`+f.name+`"`)
		if f.file != "" {
			h.Set("Content-Disposition", `form-data; name="`+f.name+`"; filename="`+f.file+`"`)
			h.Set("Content-Type", f.kind)
		}
		w, err := m.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), m.FormDataContentType()
}

// deploy uploads a form, wants a status, and returns the body.
func (b *bench) deploy(status int, to string, fields ...field) string {
	b.t.Helper()
	body, kind := formOf(b.t, fields...)
	q := b.request("PUT", "/webhooks/publish/"+to, strings.NewReader(body))
	q.Header.Set("Content-Type", kind)
	got, text := b.do(q)
	if got != status {
		b.t.Errorf("%s: %d %s, want %d", to, got, text, status)
	}
	return text
}

// parsed requests JSON.
func parsed[T any](b *bench, path string) (v T) {
	b.t.Helper()
	text := b.ask(200, "GET", path, "")
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		b.t.Errorf("%s: %v %s", path, err, text)
	}
	if strings.Contains(text, "confidential") {
		b.t.Errorf("%s shows a secret: %s", path, text)
	}
	return v
}

// TestPassword: only the credential, as the password of Basic authentication with any user name,
// and only from programs.
func TestPassword(t *testing.T) {
	b := start(t, settings, example)
	basic := func(user, password string) func(*http.Request) {
		return func(q *http.Request) { q.SetBasicAuth(user, password) }
	}
	field := func(name, value string) func(*http.Request) {
		return func(q *http.Request) { q.Header.Set(name, value) }
	}
	for name, k := range map[string]struct {
		status int
		edit   func(*http.Request)
	}{
		"the client":   {200, basic("RoadSign CLI", password)},
		"another user": {200, basic("", password)},
		"wrong":        {401, basic("RoadSign CLI", "wrong")},
		"longer":       {401, basic("RoadSign CLI", password+"x")},
		"shorter":      {401, basic("RoadSign CLI", password[1:])},
		"as the user":  {401, basic(password, "")},
		"none":         {401, func(q *http.Request) { q.Header.Del("Authorization") }},
		"bearer":       {401, field("Authorization", "Bearer "+password)},
		"malformed":    {401, field("Authorization", "Basic !")},
		"another name": {421, func(q *http.Request) { q.Host = "evil.example" }},
		"another page": {403, field("Origin", "http://evil.example")},
		"another site": {403, field("Sec-Fetch-Site", "cross-site")},
	} {
		for _, path := range []string{"/cgi/reload", "/cgi/applications/web/start"} {
			q := b.request("POST", path, nil)
			k.edit(q)
			if status, text := b.do(q); status != k.status {
				t.Errorf("%s, %s: %d %s, want %d", name, path, status, text, k.status)
			}
		}
	}
	for _, path := range []string{"/cgi/metadata", "/cgi/traces", "/cgi/regions", "/cgi/regions/cfg/central", "/cgi/none", "/webhooks/none"} {
		q := b.request("GET", path, nil)
		q.SetBasicAuth("RoadSign CLI", "wrong")
		if status, text := b.do(q); status != 401 || !strings.Contains(text, "wrong password: ") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestNoCredential: without one, the API refuses all, and says how to set it.
func TestNoCredential(t *testing.T) {
	b := start(t, strings.Replace(settings, password, "", 1), example)
	for _, path := range []string{"GET /cgi/metadata", "POST /cgi/reload", "PUT /webhooks/sync/x"} {
		method, path, _ := strings.Cut(path, " ")
		if text := b.ask(403, method, path, ""); !strings.Contains(text, `set credential = "…" in [security]`) {
			t.Error(text)
		}
	}
}

// TestNames: the JSON has the names that RoadSign's client reads, no list is null, and secrets
// are hidden.
func TestNames(t *testing.T) {
	b := start(t, settings, example)
	if m := parsed[map[string]string](b, "/cgi/metadata"); m["version"] == "" || m["server"] == "" {
		t.Error(m)
	}
	b.page("/index.html?token=confidential&x=1")
	b.page("/other")
	s := parsed[struct {
		Regions, Locations, Destinations, Applications int
		Uptime                                         *float64
		Traffic                                        struct{ Total int }
	}](b, "/cgi/stats")
	if s.Regions != 1 || s.Locations != 2 || s.Destinations != 2 || s.Applications != 2 || s.Uptime == nil || s.Traffic.Total != 2 {
		t.Errorf("%+v", s)
	}
	traffic := parsed[map[string]any](b, "/cgi/traffic")
	if _, err := time.Parse(time.RFC3339Nano, traffic["startup_at"].(string)); err != nil || traffic["total_traffic"] != 2.0 {
		t.Errorf("%v %v", traffic, err)
	}
	regions := parsed[[]map[string]any](b, "/cgi/regions")
	if got := slices.Sorted(maps.Keys(regions[0])); !slices.Equal(got, []string{"applications", "disabled", "id", "locations"}) {
		t.Error(got)
	}
	location := regions[0]["locations"].([]any)[0].(map[string]any)
	if got := slices.Sorted(maps.Keys(location)); !slices.Equal(got, []string{"destinations", "headers", "hosts", "id", "paths", "queries"}) ||
		location["hosts"] == nil || location["queries"].(map[string]any)["v"] != "*" {
		t.Error(location)
	}
	destination := location["destinations"].([]any)[0].(map[string]any)
	helmet, transformer := destination["helmet"].(map[string]any), destination["transformers"].([]any)[0].(map[string]any)
	if destination["uri"] != "http://127.0.0.1:1/" || helmet["x_frame_options"] != "SAMEORIGIN" || helmet["hsts_max_age"] != 5.0 ||
		transformer["type"] != "replacePath" || transformer["options"].(map[string]any)["pattern"] != "/a" {
		t.Error(destination)
	}
	traces := parsed[[]map[string]any](b, "/cgi/traces")
	if len(traces) != 2 {
		t.Fatal(traces)
	}
	first := traces[0] // the oldest
	if uri := first["uri"].(string); !strings.HasPrefix(uri, "//127.0.0.1:") || !strings.Contains(uri, "/index.html?") || first["region"] != "central" ||
		first["location"] != "all" || first["destination"] != "www" || first["ip_address"] != "127.0.0.1" ||
		first["error"].(map[string]any)["is_null"] != true {
		t.Error(first)
	}
	if failed := traces[1]["error"].(map[string]any); failed["is_null"] != false || failed["message"] == "" {
		t.Error(traces[1])
	}
	if at, err := time.Parse(time.RFC3339Nano, first["timestamp"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Error(at, err)
	}
	if got := b.ask(200, "GET", "/cgi/regions/cfg/central", ""); got != b.read("config/central.toml") {
		t.Error(got)
	}
	b.ask(404, "GET", "/cgi/regions/cfg/none", "")
	b.ask(400, "GET", "/cgi/regions/cfg/..%2fsettings", "")
}

// TestEmpty: lists without entries are lists.
func TestEmpty(t *testing.T) {
	b := start(t, strings.Replace(settings, "capture_traces = true", "", 1), "id = \"none\"")
	for _, path := range []string{"/cgi/traces", "/cgi/applications"} {
		if text := strings.TrimSpace(b.ask(200, "GET", path, "")); text != "[]" {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// status returns an application's status and command.
func (b *bench) status(id string) (status int, command []string) {
	b.t.Helper()
	type app struct {
		ID          string
		Status      int
		Command     []string
		Environment []string
		Workdir     string
	}
	for _, a := range parsed[[]app](b, "/cgi/applications") {
		if a.ID == id {
			return a.Status, a.Command
		}
	}
	return -1, nil
}

const started, exited = 2, 3 // RoadSign's numbers

// TestApplications: listed, started, stopped, restarted, with their output.
func TestApplications(t *testing.T) {
	b := start(t, settings, example)
	until(t, "it runs", func() bool { return b.read("runs") == "runs 0\n" })
	until(t, "it is listed", func() bool { status, command := b.status("web"); return status == started && command[0] == "/bin/sh" })
	until(t, "its output", func() bool { return b.ask(200, "GET", "/cgi/applications/web/logs", "") == "runs 0\n" })
	b.ask(200, "POST", "/cgi/applications/web/start", "") // it runs
	b.ask(200, "POST", "/cgi/applications/web/stop", "")
	if status, _ := b.status("web"); status != exited || b.read("runs") != "runs 0\n" {
		t.Error(status, b.read("runs"))
	}
	b.ask(200, "POST", "/cgi/applications/web/start", "")
	until(t, "it is started", func() bool { return b.read("runs") == strings.Repeat("runs 0\n", 2) })
	b.ask(200, "POST", "/cgi/applications/web/restart", "")
	until(t, "it is restarted", func() bool { return b.read("runs") == strings.Repeat("runs 0\n", 3) })
	b.ask(200, "POST", "/cgi/reload", "")
	b.ask(200, "POST", "/cgi/reload?warden=true", "")
	until(t, "it is restarted with the others", func() bool { return b.read("runs") == strings.Repeat("runs 0\n", 4) })
	b.ask(400, "POST", "/cgi/reload?warden=maybe", "")
	for _, path := range []string{"POST /none/start", "POST /none/stop", "POST /none/restart", "GET /none/logs"} {
		method, path, _ := strings.Cut(path, " ")
		b.ask(404, method, "/cgi/applications"+path, "")
	}
	b.ask(405, "POST", "/cgi/applications/web/logs", "")
	b.ask(404, "POST", "/cgi/applications/web/none", "")
}

// TestReload: a mistake leaves the old configuration, and is told.
func TestReload(t *testing.T) {
	b := start(t, settings, example)
	b.write("config/second.toml", "[[locations]]\nhosts = [\"second.example\"]\n")
	if text := b.ask(422, "POST", "/cgi/reload", ""); !strings.Contains(text, "second.toml:1: location \"\" has no destination") {
		t.Error(text)
	}
	b.write("config/second.toml", "id = \"second\"\n")
	b.ask(200, "POST", "/cgi/reload", "")
	if got := parsed[[]any](b, "/cgi/regions"); len(got) != 2 {
		t.Error(got)
	}
}

// TestSync: a region's file is written, and served; what is wrong, alone or with the others,
// leaves what was there.
func TestSync(t *testing.T) {
	b := start(t, settings, example)
	b.write("new/index.html", "new")
	region := "id = \"new\"\n[[locations]]\npaths = [\"=/new.html\"]\n[[locations.destinations]]\nid = \"des\"\nuri = \"files://" + b.dir + "/new\"\n"
	b.ask(200, "PUT", "/webhooks/sync/new", region)
	if b.read("config/new.toml") != region {
		t.Error(b.read("config/new.toml"))
	}
	b.deploy(200, "new/des", attached(zipped(t, "new.html", "deployed")))
	if got := b.page("/new.html"); got != "deployed" {
		t.Error(got)
	}
	for name, k := range map[string]struct {
		to, text, want string
		status         int
	}{
		"no TOML":      {"new", "id = 5 [[", "new.toml:1", 422},
		"unknown key":  {"new", "idd = \"x\"\n", "unknown key idd", 422},
		"with others":  {"new", "[[applications]]\nid = \"web\"\ncommand = [\"x\"]\n", "its own id", 422},
		"not a region": {"new", "[security]\ncredential = \"x\"\n", "unknown key security", 422},
		"fresh":        {"fresh", "[[locations]]\n", "no destination", 422},
		"large":        {"new", strings.Repeat("#", 150_001), "upload_bytes", 413},
		"elsewhere":    {"..%2fsettings", "id = \"x\"\n", "invalid name", 400},
		"below":        {"a%2fb", "id = \"x\"\n", "invalid name", 400},
		"hidden":       {".x", "id = \"x\"\n", "invalid name", 400},
	} {
		if text := b.ask(k.status, "PUT", "/webhooks/sync/"+k.to, k.text); !strings.Contains(text, k.want) {
			t.Errorf("%s: %s", name, text)
		}
		if got := b.names("config"); !slices.Equal(got, []string{"central.toml", "new.toml"}) || b.read("config/new.toml") != region ||
			b.page("/new.html") != "deployed" {
			t.Errorf("%s: %v %s", name, got, b.read("config/new.toml"))
		}
	}
}

// TestNowhereToSync: a proxy without a directory of regions says so.
func TestNowhereToSync(t *testing.T) {
	b := start(t, strings.Replace(settings, "[paths]\nconfigs = \"config\"\n", "", 1), example)
	for _, path := range []string{"PUT /webhooks/sync/x", "GET /cgi/regions/cfg/x"} {
		method, path, _ := strings.Cut(path, " ")
		if text := b.ask(501, method, path, "id = \"x\"\n"); !strings.Contains(text, "[paths] configs") || strings.Count(text, "\n") != 1 {
			t.Error(text)
		}
	}
}
