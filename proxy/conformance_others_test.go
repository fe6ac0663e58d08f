package proxy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/proxy"
)

// TestOthers prints how other proxies do, for the table in proxy/README.md. It is
// asked for with CEILING_CONFORMANCE=1, and never fails for what they do.
func TestOthers(t *testing.T) {
	needs.Asking(t, "CEILING_CONFORMANCE")
	for _, o := range []struct {
		name, program, version string
		config                 func(dir, listen, backend string) string
		args                   func(file string) []string
	}{
		{"nginx", "/usr/sbin/nginx", "-v", nginxConfig, func(f string) []string { return []string{"-c", f} }},
		{"haproxy", "/usr/sbin/haproxy", "-v", haproxyConfig, func(f string) []string { return []string{"-f", f} }},
	} {
		if _, err := os.Stat(o.program); err != nil {
			t.Logf("%s is not installed: not measured", o.name)
			continue
		}
		version, err := exec.Command(o.program, o.version).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewBackend()
		if err != nil {
			t.Fatal(err)
		}
		listen := porttest.Free(t, "127.0.0.1")
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "conf")
		if err := os.WriteFile(file, []byte(o.config(dir, listen, b.Address())), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(o.program, o.args(file)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if c, err := net.Dial("tcp", listen); err == nil {
				c.Close()
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		report(t, o.name+" ("+strings.SplitN(string(version), "\n", 2)[0]+")", listen, b)
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it was told to end
		b.Close()
	}
	r, b := served(t, "uring")
	report(t, "ceiling", r.plain, b)
}

// report tries every case and prints the sums and what failed.
func report(t *testing.T, name, address string, b *Backend) {
	type sum struct{ all, good, rejects, rejected int }
	sums := map[string]*sum{"chosen": {}, "basics": {}, "smuggling": {}}
	var failed []string
	cases := proxy.Cases(t)
	for i := range cases {
		c := &cases[i]
		kind, _, _ := strings.Cut(c.Group, ",")
		s := sums[kind]
		if s == nil {
			s = sums["chosen"]
		}
		_, err := try(c, address, b)
		s.all++
		if c.Want == proxy.Reject {
			s.rejects++
		}
		if err != nil {
			// What is still on its way to the backend belongs to this case.
			time.Sleep(10 * time.Millisecond)
			failed = append(failed, fmt.Sprintf("  %s / %s: %.150v", c.Group, c.Name, err))
			continue
		}
		s.good++
		if c.Want == proxy.Reject {
			s.rejected++
		}
	}
	for _, kind := range []string{"chosen", "basics", "smuggling"} {
		s := sums[kind]
		t.Logf("%s: %s: %d of %d cases, %d of %d that must be rejected", name, kind, s.good, s.all, s.rejected, s.rejects)
	}
	t.Logf("%s failed\n%s", name, strings.Join(failed, "\n"))
}

func nginxConfig(dir, listen, backend string) string {
	// Its workers would otherwise be somebody who cannot write into dir, and answer
	// 500 where a body goes to a file.
	user := ""
	if os.Getuid() == 0 {
		user = "user root; "
	}
	return fmt.Sprintf(`%[4]sdaemon off; pid %[1]s/pid; error_log %[1]s/error.log; worker_processes 1;
events {}
http { access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream b { server %[3]s max_fails=0; keepalive 16; }
  server { listen %[2]s; client_max_body_size 0;
    location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host; } } }
`, dir, listen, backend, user)
}

func haproxyConfig(_, listen, backend string) string {
	return fmt.Sprintf(`defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
  option forwardfor
frontend f
  bind %s
  default_backend b
backend b
  http-reuse safe
  server s %s
`, listen, backend)
}
