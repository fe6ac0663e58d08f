//go:build linux

package observe

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const trieFixture = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.9.0.0/24 2 0 1
        |-- 10.9.0.0
           /24 link UNICAST
        |-- 10.9.0.2
           /32 host LOCAL
        |-- 10.9.0.255
           /32 link BROADCAST
`

func TestLocalInTrie(t *testing.T) {
	for text, want := range map[string]bool{"10.9.0.2": true, "10.9.0.0": false, "10.9.0.255": false, "10.9.0.3": false} {
		if got := localInTrie(strings.NewReader(trieFixture), netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: local %v, want %v", text, got, want)
		}
	}
}

// TestFindNamespace lays out a /proc with three namespaces.
func TestFindNamespace(t *testing.T) {
	proc := t.TempDir()
	process := func(pid, ns, trie, tcp string) {
		dir := filepath.Join(proc, pid)
		for _, d := range []string{"ns", "net"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("net:["+ns+"]", filepath.Join(dir, "ns", "net")); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"fib_trie": trie, "tcp": tcp} {
			if err := os.WriteFile(filepath.Join(dir, "net", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	head := "  sl  local_address rem_address   st\n"
	process("self", "1", "", head)
	process("100", "1", trieFixture, head+"   0: 0200090A:1F90 00000000:0000 0A\n") // ours: not looked for
	process("200", "2", trieFixture, head+"   0: 0200090A:1F91 00000000:0000 0A\n") // another port
	process("300", "3", trieFixture, head+"   0: 00000000:1F90 00000000:0000 0A\n") // all addresses
	process("400", "4", trieFixture, head+"   0: 0200090A:1F92 00000000:0000 01\n") // established, not listening
	for text, want := range map[string]int{"10.9.0.2:8080": 300, "10.9.0.2:8081": 200, "10.9.0.2:8082": 0, "10.9.0.7:8080": 0} {
		if got := findNamespace(proc, netip.MustParseAddrPort(text)); got != want {
			t.Errorf("%s: process %d, want %d", text, got, want)
		}
	}
}
