package convert

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/proxy"
	"ceiling/proxy/config"
)

// asked is what both programs are asked.
type asked struct{ method, host, path, fields string }

// said is what matters of an answer.
func said(t *testing.T, client *http.Client, a asked) string {
	t.Helper()
	q, err := http.NewRequest(a.method, "http://"+a.host+a.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, value, found := strings.Cut(a.fields, ": "); found {
		q.Header.Set(name, value)
	}
	res, err := client.Do(q)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	text := string(body)
	site := res.Header.Get("X-Site")
	if res.StatusCode >= 300 && !strings.HasPrefix(text, "own") { // each program's own page
		text = ""
	}
	if res.StatusCode >= 400 { // to which nginx's add_header adds nothing, without always
		site = ""
	}
	return fmt.Sprintf("%d %q %q %q", res.StatusCode, text, res.Header.Get("Location"), site)
}

func clientOver(t *testing.T, network, address string) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	return &http.Client{Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// serves starts the proxy with a translated file.
func serves(t *testing.T, name string) {
	t.Helper()
	r, err := File(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Left) > 0 {
		t.Fatalf("not translated: %v", r.Left)
	}
	c, err := config.Parse("x.toml", []byte(r.TOML))
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.TOML)
	}
	c.Workers = 1
	p, err := proxy.New(c, proxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// original starts the program that a file is of, until it accepts connections.
func original(t *testing.T, network, address string, command ...string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, or does now
		_ = cmd.Wait()
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not serve: %v %s", command[0], err, log.String())
		}
	}
}

// site makes files, and an application that says what it is asked.
func siteOf(t *testing.T) (dir, app string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's workers have another user
		t.Fatal(err)
	}
	for name, text := range map[string]string{"index.html": "index", "a.css": "css", "sub/index.html": "sub", "sub/b.txt": "b"} {
		file := filepath.Join(dir, "www", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/verify" && r.Header.Get("Cookie") == "" {
			w.WriteHeader(401)
			return
		}
		w.Header().Set("Remote-User", "alice")
		fmt.Fprintf(w, "%s %s %s %s user=%s", r.Method, r.Host, r.RequestURI, r.Header.Get("X-Fixed"), r.Header.Get("X-User"))
	}))
	t.Cleanup(s.Close)
	return dir, strings.TrimPrefix(s.URL, "http://")
}

func compare(t *testing.T, theirs, ours *http.Client, list []asked) {
	t.Helper()
	for _, a := range list {
		if want, got := said(t, theirs, a), said(t, ours, a); got != want {
			t.Errorf("%s http://%s%s %s\n  original %s\n  here     %s", a.method, a.host, a.path, a.fields, want, got)
		}
	}
}

// TestBesideNginx: a translated file answers as nginx does with the original.
func TestBesideNginx(t *testing.T) {
	needs.Program(t, "nginx")
	dir, app := siteOf(t)
	text := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events {}
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream app { server %[2]s; keepalive 8; }
  server {
    listen unix:%[1]s/SOCKET;
    server_name a.example *.b.example;
    root %[1]s/www;
    add_header X-Site a;
    proxy_set_header Host $host;
    location / { try_files $uri @app; }
    location @app { proxy_pass http://app; proxy_set_header Host $host; proxy_set_header X-Fixed one; }
    location = /exact { return 200 "own exact\n"; }
    location /gone { return 410; }
    location /none { return 204; }
    location /moved { return 301 https://new.example$request_uri; }
    location /temporary { return 302 https://$host/there; }
    location /v1/ { proxy_pass http://app/api/; }
    location /keep/ { proxy_pass http://app; }
    location /alias { alias %[1]s/www/sub/; }
    location ^~ /first { return 200 "own first"; }
    location ~ ^/f[a-z]+ { return 200 "own regex"; }
    location ~* \.PNG$ { return 200 "own png"; }
    location /denied { deny all; try_files $uri =404; }
    location /who {
      auth_request /verify;
      auth_request_set $user $upstream_http_remote_user;
      proxy_set_header Host $host;
      proxy_set_header X-User $user;
      proxy_pass http://app;
    }
    location = /verify { internal; proxy_pass http://%[2]s/verify; proxy_pass_request_body off; proxy_set_header Content-Length ""; }
  }
  server {
    listen unix:%[1]s/SOCKET default_server;
    location / { return 404; }
  }
}
`, dir, app)
	for _, name := range []string{"n", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name+".conf"), []byte(strings.ReplaceAll(text, "SOCKET", name+".sock")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	theirs, ours := filepath.Join(dir, "n.sock"), filepath.Join(dir, "c.sock")
	original(t, "unix", theirs, "/usr/sbin/nginx", "-c", filepath.Join(dir, "n.conf"), "-p", dir)
	serves(t, filepath.Join(dir, "c.conf"))
	var list []asked
	for _, path := range []string{"/", "/a.css", "/x", "/x/y?z=1", "/exact", "/exact/", "/gone", "/none", "/moved", "/moved/a?b=c", "/temporary", "/v1/x?y",
		"/keep/x", "/alias/b.txt", "/alias/none", "/first", "/foo", "/x.png", "/X.PNG", "/denied", "/sub/b.txt", "/who"} {
		list = append(list, asked{"GET", "a.example", path, ""})
	}
	list = append(list, asked{"GET", "x.b.example", "/x", ""}, asked{"GET", "b.example", "/x", ""}, asked{"GET", "other.example", "/x", ""},
		asked{"POST", "a.example", "/x", ""}, asked{"HEAD", "a.example", "/a.css", ""}, asked{"GET", "a.example", "/who", "Cookie: a=b"})
	compare(t, clientOver(t, "unix", theirs), clientOver(t, "unix", ours), list)
}

// TestBesideCaddy: so does a translated Caddyfile.
func TestBesideCaddy(t *testing.T) {
	needs.Program(t, "caddy")
	dir, app := siteOf(t)
	text := fmt.Sprintf(`{
	admin off
	auto_https off
}
http://a.example:PORT, http://b.example:PORT {
	bind 127.0.0.1
	root * %[1]s/www
	header X-Site a
	@api path /api/* /rpc
	reverse_proxy @api %[2]s {
		header_up X-Fixed one
	}
	handle_path /strip/* {
		reverse_proxy %[2]s
	}
	handle /files/* {
		respond "own files" 200
	}
	respond /health "own ok" 200
	respond /teapot 418
	redir /moved https://new.example{uri} permanent
	redir /temporary https://new.example/there
	file_server
}
`, dir, app)
	ports := map[string]string{}
	for _, name := range []string{"theirs", "ours"} {
		var err error
		if _, ports[name], err = net.SplitHostPort(porttest.Free(t, "127.0.0.1")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".caddyfile"), []byte(strings.ReplaceAll(text, "PORT", ports[name])), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	original(t, "tcp", "127.0.0.1:"+ports["theirs"], "caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "theirs.caddyfile"))
	file := filepath.Join(dir, "ours.caddyfile")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(raw), "\tauto_https off\n", "", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	serves(t, file)
	var list []asked
	for _, path := range []string{"/", "/a.css", "/none", "/api/x?y", "/api/", "/rpc", "/rpc/x", "/strip/x", "/strip/", "/files/x", "/health", "/health/x",
		"/teapot", "/moved", "/moved?a=b", "/temporary", "/sub/", "/sub/b.txt"} {
		list = append(list, asked{"GET", "a.example", path, ""})
	}
	list = append(list, asked{"GET", "b.example", "/api/x", ""}, asked{"POST", "a.example", "/api/x", ""}, asked{"HEAD", "a.example", "/a.css", ""})
	compare(t, clientOver(t, "tcp", "127.0.0.1:"+ports["theirs"]), clientOver(t, "tcp", "127.0.0.1:"+ports["ours"]), list)
}
