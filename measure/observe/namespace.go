//go:build linux

package observe

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// FindNamespace looks for a process of this host in whose network namespace a server listens on the
// address, other than this process's own: a server in a container or a test's namespace. 0: none
// was found, or other processes may not be inspected.
func FindNamespace(addr netip.AddrPort) (pid int) {
	return findNamespace("/proc", addr)
}

func findNamespace(proc string, addr netip.AddrPort) int {
	own, err := os.Readlink(filepath.Join(proc, "self", "ns", "net"))
	if err != nil {
		return 0
	}
	seen := map[string]bool{own: true}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		ns, err := os.Readlink(filepath.Join(dir, "ns", "net"))
		if err != nil || seen[ns] {
			continue // ended, another user's, or already inspected
		}
		seen[ns] = true
		if hasAddress(dir, addr.Addr()) && listens(dir, addr) {
			return pid
		}
	}
	return 0
}

// hasAddress reports whether an address is local to the namespace, from /proc/PID/net/fib_trie
// (net/ipv4/fib_trie.c) or if_inet6.
func hasAddress(dir string, ip netip.Addr) bool {
	ip = ip.Unmap()
	if !ip.Is4() {
		b, err := os.ReadFile(filepath.Join(dir, "net", "if_inet6"))
		v6 := ip.As16()
		return err == nil && strings.Contains(string(b), hex.EncodeToString(v6[:]))
	}
	f, err := os.Open(filepath.Join(dir, "net", "fib_trie"))
	if err != nil {
		return false
	}
	defer f.Close()
	return localInTrie(f, ip)
}

// localInTrie looks for a leaf "|-- 10.0.0.2" followed by a line "/32 host LOCAL".
func localInTrie(r io.Reader, ip netip.Addr) bool {
	leaf := false
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "|-- "); ok {
			leaf = name == ip.String()
		} else if leaf && strings.HasPrefix(line, "/32 host LOCAL") {
			return true
		}
	}
	return false
}

// listens reports whether a socket listens on the address, or on its port of all addresses, from
// /proc/PID/net/tcp and tcp6 (state 0A is TCP_LISTEN).
func listens(dir string, addr netip.AddrPort) bool {
	port := fmt.Sprintf(":%04X", addr.Port())
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(dir, "net", name))
		if err != nil {
			continue // no IPv6, or the process has ended
		}
		lines := bufio.NewScanner(f)
		found := false
		for lines.Scan() && !found {
			fields := strings.Fields(lines.Text())
			if len(fields) < 4 || fields[3] != "0A" || !strings.HasSuffix(fields[1], port) {
				continue
			}
			host := strings.TrimSuffix(fields[1], port)
			found = strings.Trim(host, "0") == "" || slices.Contains(kernelForms(addr.Addr()), host)
		}
		f.Close()
		if found {
			return true
		}
	}
	return false
}

// kernelForms returns the forms of an address in /proc/net/tcp and tcp6: 32-bit words in host
// order, which is little-endian wherever this runs.
func kernelForms(ip netip.Addr) []string {
	words := func(b []byte) string {
		var s strings.Builder
		for w := 0; w < len(b); w += 4 {
			fmt.Fprintf(&s, "%02X%02X%02X%02X", b[w+3], b[w+2], b[w+1], b[w])
		}
		return s.String()
	}
	ip = ip.Unmap()
	v6 := ip.As16()
	forms := []string{words(v6[:])}
	if ip.Is4() {
		v4 := ip.As4()
		forms = append(forms, words(v4[:]))
	}
	return forms
}
