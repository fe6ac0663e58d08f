//go:build linux

package observe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ceiling/record"
)

// databaseHelper listens on the socket that it was given and has a child of its own
// program take the connections, as servers do that fork for each.
func databaseHelper() {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), helperEnv+"=backend")
	child.ExtraFiles = []*os.File{os.NewFile(3, "listener")}
	hold, err := child.StdinPipe()
	if err != nil {
		os.Exit(1)
	}
	child.Stdout = os.Stdout
	if child.Start() != nil {
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
	hold.Close()
	child.Wait()
	os.Exit(0)
}

// backendHelper accepts, works 30 ms, writes 1 MB through to the disk, and says
// who it is.
func backendHelper() {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		os.Exit(1)
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var taken []net.Conn
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		taken = append(taken, c)
		go func() {
			io.CopyN(io.Discard, c, 1)
			for until := usedCPU() + 30*time.Millisecond; usedCPU() < until; {
			}
			f, err := os.CreateTemp(".", "written")
			if err != nil {
				os.Exit(1)
			}
			os.Remove(f.Name())
			if _, err := f.Write(make([]byte, 1<<20)); err != nil || f.Sync() != nil {
				os.Exit(1)
			}
			f.Close()
			c.Write([]byte{1})
		}()
		fmt.Println(len(taken), os.Getpid(), os.Getppid())
	}
}

// TestPeerProcesses: who is at the other end is known, by whichever of its
// processes took the connection, and what it does is in the record.
func TestPeerProcesses(t *testing.T) {
	for _, c := range []struct{ name, network, addr string }{
		{"tcp4", "tcp4", "127.0.0.1:0"}, {"dual stack", "tcp", ":0"}, {"unix", "unix", filepath.Join(t.TempDir(), "s")},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkDescriptors(t)
			l, err := net.Listen(c.network, c.addr)
			if err != nil {
				t.Fatal(err)
			}
			file, err := l.(interface{ File() (*os.File, error) }).File()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), helperEnv+"=database")
			cmd.ExtraFiles = []*os.File{file}
			cmd.Dir = "."
			hold, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			file.Close()
			t.Cleanup(func() { hold.Close(); cmd.Wait() })

			p := peersOf(t, netip.AddrPort{})
			addr := l.Addr()
			if c.network == "tcp" {
				addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: l.Addr().(*net.TCPAddr).Port}
			}
			conn, err := net.Dial(addr.Network(), addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			line, err := bufio.NewReader(out).ReadString('\n')
			var n, backend, parent int
			if _, scan := fmt.Sscan(line, &n, &backend, &parent); err != nil || scan != nil || parent != cmd.Process.Pid {
				t.Fatalf("%q, %v, %v", line, err, scan)
			}
			l.Close() // the test's own copy

			row := p.look(t)
			if got := peerAt(row, addr.String()); got.Sockets != 1 || got.PID != parent {
				t.Errorf("%+v, want process %d of %d's connection", got, parent, backend)
			}
			roles := map[int]string{}
			for _, one := range p.subject.processes {
				roles[one.identity.pid] = one.identity.role
			}
			if roles[parent] != record.RolePeer || roles[backend] != record.RolePeer || roles[os.Getpid()] != record.RoleSubject || len(roles) != 3 {
				t.Errorf("watched are %v; the database is %d and %d", roles, parent, backend)
			}
			p.look(t) // a first sample, which counts from none
			if p.owners.scans != 0 {
				t.Errorf("looked through all processes again, though nothing was new")
			}

			used := func() *record.ProcessRow {
				t.Helper()
				out := &collect{t: t}
				at := tick{tNs: 5e9, widthNs: 1e9}
				states, switches := &stateSampler{t: p.t, subject: p.subject, peers: true}, &switchSampler{t: p.t, subject: p.subject, peers: true}
				processes := &processSampler{t: p.t, subject: p.subject, schedstat: true, peers: true}
				for range 2 {
					at.tNs += 1e9
					for _, s := range []sampler{states, switches, processes} {
						if err := s.sample(at, out.emit); err != nil {
							t.Fatal(err)
						}
					}
					if _, err := conn.Write([]byte{1}); err != nil {
						t.Fatal(err)
					}
					if at.tNs == 6e9 {
						if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, r := range rowsOf[record.ProcessRow](out) {
					if r.Role != record.RolePeer {
						t.Errorf("the peers' rows have one of role %s", r.Role)
					}
					if r.PID == backend {
						return r
					}
				}
				return &record.ProcessRow{}
			}()
			if used.CPUNs < 30e6 || used.CPUNs > 300e6 {
				t.Errorf("its backend used %d ns of CPU, planted are 30 ms", used.CPUNs)
			}
			var fs syscall.Statfs_t
			if err := syscall.Statfs(".", &fs); err != nil {
				t.Fatal(err)
			}
			const tmpfs = 0x01021994 // which writes to no device
			if fs.Type != tmpfs && (used.WrittenBytes < 1<<20 || used.WrittenBytes > 4<<20) {
				t.Errorf("its backend wrote %d bytes, planted is 1 MiB", used.WrittenBytes)
			}
		})
	}
}

// TestOwnEndIsNoPeer: a server that talks to itself has no server behind it.
func TestOwnEndIsNoPeer(t *testing.T) {
	back, addr := listen(t, "tcp4", "127.0.0.1:0")
	connect(t, back, 2)
	p := peersOf(t, netip.AddrPort{})
	if got := peerAt(p.look(t), addr.String()); got.Sockets != 2 || got.PID != 0 || len(p.subject.processes) != 1 {
		t.Errorf("%+v, %d processes", got, len(p.subject.processes))
	}
	p.look(t) // a first sample, which counts from none
	if p.owners.scans != 0 {
		t.Error("looked through all processes again")
	}
}
