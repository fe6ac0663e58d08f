package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ceiling/internal/unit"
)

const (
	// ownFiles is the number of files that a run opens besides its connections.
	ownFiles = 256
	// filesBad allows a usual run of 1,000 connections; filesWarn one of 10,000.
	filesBad  = 1_000 + ownFiles
	filesWarn = 10_000 + ownFiles
)

// limit parses "soft/hard" of Environment.Limits; unlimited is math.MaxInt64.
func (f *Facts) limit(name string) (soft, hard int64, known bool) {
	one := func(text string) (int64, bool) {
		if text == "unlimited" {
			return math.MaxInt64, true
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	first, second, _ := strings.Cut(f.Env.Limits[name], "/")
	soft, ok1 := one(first)
	hard, ok2 := one(second)
	return soft, hard, ok1 && ok2
}

// checkFiles checks the hard limit: a run raises the soft one itself.
func checkFiles(f *Facts) Finding {
	soft, hard, known := f.limit("nofile")
	if !known {
		return unknown("the limit of open files could not be read", "")
	}
	what := fmt.Sprintf("at most %s open files, which is %s connections (soft limit %s, raised by a run itself but not by every server)",
		amount(hard), amount(max(hard-ownFiles, 0)), amount(soft))
	if hard == math.MaxInt64 {
		what = "no limit of open files"
	}
	fix := "ulimit -Hn 1048576 && ulimit -n 1048576 (as root), or LimitNOFILE= of the service"
	switch {
	case hard < filesBad:
		return bad(what, fix)
	case hard < filesWarn:
		return warn(what, fix)
	}
	return ok(what)
}

func amount(n int64) string {
	if n == math.MaxInt64 {
		return "unlimited"
	}
	return unit.FormatCount(n)
}

// ringsCounted is the number of rings that the limit of locked memory should allow, ringBytes the
// size of one with its buffers (measured on 6.18).
const (
	ringsCounted = 8
	ringBytes    = 770 << 10
)

// checkMemlock: rings counted against the limit until Linux 5.12, then only against the cgroup,
// and count against it again since 6.14 (io_create_region in io_uring/memmap.c), except for a
// process with CAP_IPC_LOCK.
func checkMemlock(f *Facts) Finding {
	soft, _, known := f.limit("memlock")
	if !known {
		return unknown("the limit of locked memory could not be read", "")
	}
	what := "no limit"
	if soft != math.MaxInt64 {
		what = unit.FormatBytesIEC(soft)
	}
	major, minor, known := kernelVersion(f.Env.Kernel)
	counts := known && (major < 5 || major == 5 && minor < 12 || major == 6 && minor >= 14 || major > 6)
	if counts && soft < ringsCounted*ringBytes {
		return warn(what+": this kernel counts io_uring against it, 770 KiB a thread, and refuses rings beyond to a process without CAP_IPC_LOCK",
			"ulimit -l unlimited (as root)")
	}
	return ok(what)
}

const (
	// timeWaitS is TCP_TIMEWAIT_LEN (include/net/tcp.h): 60 s, fixed. With tcp_tw_reuse a port
	// can be reused after one second.
	timeWaitS = 60
	// portsBad and portsWarn are concurrent connections to one address.
	portsBad  = 1_000
	portsWarn = 10_000
)

func checkPorts(f *Facts) Finding {
	ports, known := f.localPorts()
	if !known {
		return unknown("net.ipv4.ip_local_port_range could not be read", "")
	}
	reuse, reuseKnown := f.sysctl("net.ipv4.tcp_tw_reuse")
	loopback := f.Target.Iface == "lo"
	quick := reuseKnown && (reuse == 1 || reuse == 2 && loopback)
	every := ports / timeWaitS
	if quick {
		every = ports
	}
	what := fmt.Sprintf("%s to one address, so as many connections at once; enough for %s new connections/s",
		unit.FormatCount(ports), unit.FormatCount(every))
	fix := `sysctl -w net.ipv4.ip_local_port_range="1024 65535" (as root)` + tuned("client")
	if !quick {
		what += " where the generator closes first (60 s of TIME_WAIT)"
		if ports >= portsWarn {
			fix = "sysctl -w net.ipv4.tcp_tw_reuse=1 (as root)" + tuned("client")
		}
	}
	if f.Files.TimeWait > 0 {
		what += fmt.Sprintf("; %s sockets, to all addresses, are in TIME_WAIT now", unit.FormatCount(f.Files.TimeWait))
	}
	if f.Files.TimeWait > ports/2 {
		fix = "wait a minute until TIME_WAIT is over, or " + fix
	}
	wait := float64(max(f.Files.TimeWait, 0)) / float64(max(ports, 1))
	switch {
	case ports < portsBad || wait > 0.9 && !quick:
		return bad(what, fix)
	case ports < portsWarn || wait > 0.5:
		return warn(what, fix)
	}
	return ok(what)
}

// localPorts counts the ephemeral ports, without reserved ones.
func (f *Facts) localPorts() (n int64, known bool) {
	fields := strings.Fields(f.Env.Sysctls["net.ipv4.ip_local_port_range"])
	if len(fields) != 2 {
		return 0, false
	}
	low, err1 := strconv.ParseInt(fields[0], 10, 32)
	high, err2 := strconv.ParseInt(fields[1], 10, 32)
	if err1 != nil || err2 != nil || high < low {
		return 0, false
	}
	n = high - low + 1
	for part := range strings.SplitSeq(f.Env.Sysctls["net.ipv4.ip_local_reserved_ports"], ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseInt(from, 10, 32)
		b, err2 := strconv.ParseInt(to, 10, 32)
		if err1 == nil && err2 == nil {
			n -= max(min(b, high)-max(a, low)+1, 0)
		}
	}
	return max(n, 0), true
}

const (
	// queueBad was somaxconn's default until Linux 5.4; queueWarn is what a
	// burst of 1,000 connections needs.
	queueBad  = 128
	queueWarn = 1024
)

// checkAcceptQueue applies to servers on this host.
func checkAcceptQueue(f *Facts) Finding {
	if f.Target.remote() {
		return ok("the server's host decides; it is not this one")
	}
	some, known := f.sysctl("net.core.somaxconn")
	syn, synKnown := f.sysctl("net.ipv4.tcp_max_syn_backlog")
	if !known {
		return unknown("net.core.somaxconn could not be read", "")
	}
	what := fmt.Sprintf("a server here gets a queue of %s connections at most (net.core.somaxconn)", unit.FormatCount(some))
	if synKnown {
		what += fmt.Sprintf(", %s half open (tcp_max_syn_backlog)", unit.FormatCount(syn))
	}
	fix := "sysctl -w net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096 (as root), and restart the server" + tuned("server")
	cookies, _ := f.sysctl("net.ipv4.tcp_syncookies")
	switch {
	case some < queueBad:
		return bad(what, fix)
	// With cookies, a full SYN queue costs a connection its options, not the connection.
	case some < queueWarn || synKnown && syn < queueWarn && cookies == 0:
		return warn(what, fix)
	}
	return ok(what)
}

func checkConntrack(f *Facts) Finding {
	n, most := f.Files.Conntrack, f.Files.ConntrackMax
	if n < 0 || most <= 0 {
		return ok("connections are not tracked")
	}
	fill := float64(n) / float64(most)
	what := fmt.Sprintf("every connection is tracked: %s of %s entries taken", unit.FormatCount(n), unit.FormatCount(most))
	if s := f.Files.ConntrackTimeWaitS; s > 0 {
		what += fmt.Sprintf("; each stays for %d s when closed, so %s new connections a second fill the table", s, unit.FormatCount(most/s))
	}
	fix := fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d (as root), or iptables -t raw -A PREROUTING -j CT --notrack for the test's port", max(4*most, 1<<20))
	switch {
	case fill > 0.85:
		return bad(what, fix)
	case fill > 0.5 || f.Target.Iface != "lo" && f.Target.URL != "":
		return warn(what, fix)
	}
	return ok(what)
}

// kernelVersion parses "6.12.9-amd64".
func kernelVersion(release string) (major, minor int, known bool) {
	first, rest, found := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(rest[:digits])
	return major, minor, found && err1 == nil && err2 == nil
}
