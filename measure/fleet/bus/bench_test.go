//go:build linux

package bus_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ceiling/internal/porttest"
	"ceiling/internal/sys"
	"ceiling/measure/fleet/bus"
)

// meter counts what goes over the wire between agents and controller, TLS and
// all, TCP and IP headers not.
type meter struct {
	net.Listener
	up, down atomic.Int64
	group    sync.WaitGroup
}

func measure(b *testing.B, address string) *meter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	m := &meter{Listener: l}
	m.group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				return
			}
			m.group.Go(func() { m.carry(out, in, &m.up) })
			m.group.Go(func() { m.carry(in, out, &m.down) })
		}
	})
	b.Cleanup(func() { l.Close(); m.group.Wait() })
	return m
}

func (m *meter) carry(to, from net.Conn, n *atomic.Int64) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		k, err := from.Read(buffer)
		n.Add(int64(k))
		if _, e := to.Write(buffer[:k]); e != nil || err != nil {
			return
		}
	}
}

// cpu is what a process has used, to 10 ms.
func cpu(b *testing.B, pid int) time.Duration {
	p, err := sys.ReadPIDStat(pid)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(p.UserTicks+p.SystemTicks) * sys.TickNs
}

// BenchmarkController is what one message costs the controller: its process's
// CPU, and bytes from and to agents. docs/scale.md has the figures.
//
//	go test -run xxx -bench Controller -benchtime 2000x ./fleet/bus
func BenchmarkController(b *testing.B) {
	for _, agents := range []int{1, 4, 16} {
		for _, size := range []int{4 << 10, 40 << 10} {
			b.Run(fmt.Sprintf("sample/agents=%d/bytes=%d", agents, size), func(b *testing.B) {
				controllerCosts(b, agents, b.N, func(c *bus.Conn, _ *bus.Conn, n int) error {
					p, err := c.Publisher("r1")
					if err != nil {
						return err
					}
					defer p.Close()
					for i := 0; i < n; i++ {
						for p.Send(make([]byte, size)) != nil {
							time.Sleep(time.Millisecond)
						}
					}
					return p.Flush(b.Context())
				})
			})
		}
	}
	b.Run("ping", func(b *testing.B) {
		controllerCosts(b, 1, 0, func(c, driver *bus.Conn, n int) error {
			for range n {
				if _, err := driver.Ping(b.Context(), c.Name(), make([]byte, 16)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("command", func(b *testing.B) {
		controllerCosts(b, 1, 0, func(c, driver *bus.Conn, n int) error {
			line, err := driver.Line(c.Name(), bus.Session{Clock: func() time.Duration { return 0 }})
			if err != nil {
				return err
			}
			defer line.Close()
			for range n {
				if _, err := line.Do(b.Context(), "alive", "r1", nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// controllerCosts lets so many agents do b.N messages between them, of which
// the driver reads so many as samples.
func controllerCosts(b *testing.B, agents, samples int, work func(c, driver *bus.Conn, n int) error) {
	dir := filepath.Join(b.TempDir(), "state")
	process, url, token := start(b, dir, porttest.Free(b, "127.0.0.1"))
	m := measure(b, strings.TrimPrefix(url, "nats://"))
	driver, err := bus.Drive(b.Context(), dir, bus.Watch{})
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Close()
	conns := make([]*bus.Conn, agents)
	for i := range conns {
		conns[i], err = bus.Join(b.Context(), "nats://"+m.Addr().String(), token, fmt.Sprint("web", i), bus.Watch{})
		if err != nil {
			b.Fatal(err)
		}
		defer conns[i].Close()
		if _, err := conns[i].Present(bus.Service{
			Version: "1.0.0", Ping: func(b []byte) []byte { return b }, About: func() []byte { return nil },
			Command: func(_ []byte, answer func([]byte)) { answer(nil) },
		}); err != nil {
			b.Fatal(err)
		}
	}
	up, down, used := m.up.Load(), m.down.Load(), cpu(b, process.Process.Pid)
	b.ResetTimer()
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() {
			if err := work(c, driver, (b.N+i)/agents); err != nil {
				b.Error(err)
			}
		})
	}
	if samples > 0 {
		read, enough := 0, errors.New("enough")
		err := driver.Samples(b.Context(), "r1", func(bus.Sample) error {
			if read++; read == samples {
				return enough
			}
			return nil
		})
		if err != enough {
			b.Errorf("%d samples read, %v", read, err)
		}
	}
	group.Wait()
	b.StopTimer()
	n := float64(b.N)
	b.ReportMetric(float64(cpu(b, process.Process.Pid)-used)/n/1e3, "cpu-µs/op")
	b.ReportMetric(float64(m.up.Load()-up)/n, "up-B/op")
	b.ReportMetric(float64(m.down.Load()-down)/n, "down-B/op")
}
