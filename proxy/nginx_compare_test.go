package proxy

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ceiling/internal/needs"
)

const nginx = "/usr/sbin/nginx"

// TestSecondOpinion has nginx in front of the same backend, and lists where it and
// the reference of TestComposedClients disagree. That the proxy does what the
// reference says is that test's claim, so this one fails only where nginx forwards
// nothing at all; who reads the list sees where the reference may be wrong.
func TestSecondOpinion(t *testing.T) {
	together(t)
	needs.Program(t, "nginx")
	b := startRecorder(t)
	socket := startNginx(t, b.Address())
	n := *compositions / 4
	all := clients(t, n, false, func(k *talked) error { return k.consult(socket) })
	until(t, "no request", b.idle)
	accepts, refuses, both, agree := map[string]int{}, map[string]int{}, 0, 0
	for _, k := range all {
		theirs := b.lines(mark(k.seed))
		var ours []string
		last := k.list[len(k.list)-1]
		for i := range k.list {
			if m := &k.list[i]; m.fate == forwarded && m.mark == mark(k.seed) {
				ours = append(ours, m.method+" "+m.target)
			}
		}
		same := true
		for _, line := range theirs {
			if slices.Contains(ours, line) {
				both++
			} else if same {
				same = false
				kind := "the RFC allows it"
				if last.must {
					kind = "the RFC demands a refusal"
				}
				accepts[fmt.Sprintf("%v, %s (%s)", last.fate, last.why, kind)]++
			}
		}
		for _, line := range ours {
			if same && !slices.Contains(theirs, line) {
				same = false
				kind := "no answer"
				if n := len(k.got); n > 0 {
					kind = fmt.Sprintf("answers %d", k.got[n-1].status)
				}
				refuses[kind]++
			}
		}
		if same {
			agree++
		}
	}
	t.Logf("%d clients: nginx and the reference agree on %d, and on %d requests", n, agree, both)
	table := func(what string, counts map[string]int) {
		for _, name := range slices.SortedFunc(maps.Keys(counts), func(x, y string) int {
			return cmp.Or(counts[y]-counts[x], strings.Compare(x, y))
		}) {
			t.Logf("%s %4d × %.150q", what, counts[name], name)
		}
	}
	table("nginx alone forwards", accepts)
	table("nginx does not forward:", refuses)
	why := map[string]int{}
	log, err := os.ReadFile(filepath.Join(filepath.Dir(socket), "error.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range regexp.MustCompile(`client (sent|intended)[^:,"]*`).FindAll(log, -1) {
		why[string(said)]++
	}
	table("nginx says", why)
	if both == 0 {
		t.Error("nginx has forwarded nothing")
	}
}

// consult says it all to nginx, and reads as many answers as the reference expects.
// nginx takes the end of the client's side for the end of the client, so it is not
// ended, and whoever waits for nothing is patient for a moment only.
func (k *talked) consult(socket string) error {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		_ = k.way.say(conn, k.sent) // nginx may have closed first
	}()
	k.got, _ = hear(bufio.NewReader(conn), k.list, false) // whatever nginx answers
	conn.Close()
	<-said
	return nil
}

func startNginx(t *testing.T, backend string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "") // a short path, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	user := ""
	if os.Getuid() == 0 {
		user = "user root; "
	}
	text := fmt.Sprintf(`%[1]sdaemon off; pid %[2]s/pid; error_log %[2]s/error.log info; worker_processes 1;
events {}
http { access_log off; client_body_temp_path %[2]s/b; proxy_temp_path %[2]s/p; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
  large_client_header_buffers 4 16k; client_max_body_size %[4]d; keepalive_requests 1000; lingering_timeout 1s;
  upstream b { server %[3]s max_fails=0; keepalive 16; }
  server { listen unix:%[2]s/socket; location / { proxy_pass http://b; proxy_http_version 1.1; proxy_ignore_client_abort on;
    proxy_set_header Connection ""; proxy_set_header Host $http_host; } } }
`, user, dir, backend, refBodyBytes)
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(nginx, "-c", file)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it was told to end
	})
	socket = filepath.Join(dir, "socket")
	until(t, "nginx answers", func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
	return socket
}
