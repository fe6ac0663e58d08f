//go:build linux

package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	peer "github.com/coder/websocket"
)

// TestWelcome: messages that a server sends before it gets one answer nothing, on the first
// connections and on those that follow; what comes unasked later is an error as before.
func TestWelcome(t *testing.T) {
	eachAtOnce(t, func(t *testing.T, engine string) {
		for _, k := range []struct {
			name           string
			welcomes       []string
			pause          time.Duration // before the last of them
			newConnections int
			pipelining     int
		}{
			{"one", []string{"ready"}, 0, 0, 1}, {"two, in time", []string{"hello", strings.Repeat("x", 70_000)}, 10 * time.Millisecond, 0, 4},
			{"new connections", []string{"ready", "steady"}, time.Millisecond, 5, 1},
		} {
			var opened, early atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				c, err := peer.Accept(w, q, &peer.AcceptOptions{CompressionMode: peer.CompressionDisabled})
				if err != nil {
					return
				}
				defer c.CloseNow()
				opened.Add(1)
				var welcomed atomic.Bool
				go func() {
					for i, text := range k.welcomes {
						if i == len(k.welcomes)-1 {
							time.Sleep(k.pause)
							welcomed.Store(true)
						}
						_ = c.Write(q.Context(), peer.MessageText, []byte(text)) // the reader sees the end
					}
				}()
				c.SetReadLimit(1 << 20)
				for {
					kind, message, err := c.Read(q.Context())
					if err != nil || c.Write(q.Context(), kind, message) != nil {
						return
					}
					if !welcomed.Load() {
						early.Add(1)
					}
				}
			}))
			c := messages(t, s.Listener.Addr().String(), engine, 200, 0, "a", "b")
			c.NewConnections, c.Pipelining = k.newConnections, k.pipelining
			r := runs(t, c)
			s.Close()
			n := &r.Total
			if n.Completed != 200 || n.Failed != 0 || len(n.Faults) != 0 || r.Streams.Echoed != 200 {
				t.Errorf("%s: completed %d, failed %d, echoes %d: %v", k.name, n.Completed, n.Failed, r.Streams.Echoed, n.Faults)
			}
			if first, want := int64(r.Streams.First), opened.Load()*int64(len(k.welcomes)); first > want || first < want-8 || early.Load() > 0 {
				t.Errorf("%s: %d messages came first over %d connections, %d were sent before", k.name, r.Streams.First, opened.Load(), early.Load())
			}
			if k.newConnections > 0 && opened.Load() < 200/5 {
				t.Errorf("%s: %d connections", k.name, opened.Load())
			}
		}
	})
}
