//go:build linux

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"ceiling/internal/needs"
	"ceiling/server/publish"
)

// status asks a server what it has published.
func pushed(t *testing.T, addr string) (s publish.Status) {
	t.Helper()
	answer, err := http.Get("http://" + addr + pushStatus)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFrameworksPublishAlike: every subscriber gets every event, in order, and the server's count is theirs.
func TestFrameworksPublishAlike(t *testing.T) {
	needs.Processes(t)
	const subscribers, events = 20, 50
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			r := start(t, k.Name, Config{Push: fmt.Sprintf("rate=1000,size=300,slow=block,await=%d,count=%d", subscribers, events)})
			var all sync.WaitGroup
			for range subscribers {
				all.Go(func() {
					answer, err := http.Get("http://" + r.addr + eventsPath)
					if err != nil {
						t.Error(err)
						return
					}
					defer answer.Body.Close()
					if kind := answer.Header.Get("Content-Type"); kind != typeEvents {
						t.Errorf("content type %q", kind)
					}
					lines := bufio.NewScanner(answer.Body)
					if !lines.Scan() || lines.Text() != ": subscribed" || !lines.Scan() {
						t.Errorf("the stream begins with %q", lines.Text())
					}
					for n := 1; n <= events; n++ {
						var got string
						for lines.Scan() && lines.Text() != "" {
							got += lines.Text() + "\n"
						}
						if want := fmt.Sprintf("id: %d\ndata: {\"seq\":%d,\"unix_ns\":", n, n); !strings.HasPrefix(got, want) || len(got)+1 != 300 {
							t.Errorf("event %d is %q, of %d bytes", n, got, len(got)+1)
						}
					}
				})
			}
			all.Wait()
			s := pushed(t, r.addr)
			for end := time.Now().Add(5 * time.Second); s.Delivered < s.Offered && time.Now().Before(end); s = pushed(t, r.addr) {
				time.Sleep(time.Millisecond) // an event is counted after its write, which the subscriber may have read by then
			}
			if s.Published != events || s.Offered != subscribers*events || s.Delivered != s.Offered || s.Dropped != 0 {
				t.Errorf("%+v", s)
			}
			r.stop(t)
		})
	}
}

// TestStreamsBeginAtOnce: a subscriber need not wait for the first event to know that he is one.
func TestStreamsBeginAtOnce(t *testing.T) {
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			r := start(t, k.Name, Config{Push: "await=2"})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+eventsPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if lines := bufio.NewScanner(answer.Body); !lines.Scan() || lines.Text() != ": subscribed" {
				t.Errorf("the stream begins with %q", lines.Text())
			}
			if s := pushed(t, r.addr); s.Subscribers != 1 || s.Published != 0 {
				t.Errorf("%+v", s)
			}
			r.stop(t)
		})
	}
}

// TestSlowSubscribers: one who does not read misses events, or holds all others up, as was asked; either is counted.
func TestSlowSubscribers(t *testing.T) {
	for slow, check := range map[string]func(publish.Status) bool{
		publish.Drop:  func(s publish.Status) bool { return s.Dropped > 0 && s.Published > 5000 && s.BlockedNs == 0 },
		publish.Block: func(s publish.Status) bool { return s.Dropped == 0 && s.BlockedNs > 0 },
	} {
		t.Run(slow, func(t *testing.T) {
			o, err := publish.Parse("rate=max,queue=4,slow=" + slow)
			if err != nil {
				t.Fatal(err)
			}
			h := publish.Start(o)
			stuck := make(chan struct{})
			var both sync.WaitGroup
			both.Go(func() {
				h.Serve(nil, func([]byte) error {
					<-stuck
					return nil
				})
			})
			both.Go(func() { h.Serve(nil, func([]byte) error { return nil }) })
			deadline := time.Now().Add(5 * time.Second)
			for slow == publish.Drop && !check(h.Status()) && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if slow == publish.Block { // nothing moves once the queue is full
				for before := (publish.Status{}); before.Published == 0 || before.Published != h.Status().Published; {
					before = h.Status()
					time.Sleep(20 * time.Millisecond)
				}
			}
			close(stuck)
			h.Close()
			both.Wait()
			s := h.Status()
			if !check(s) || s.Offered != s.Delivered+s.Dropped+s.Lost || s.Subscribers != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestFrameworksEcho: a WebSocket answers every message with itself, and ends with its server.
func TestFrameworksEcho(t *testing.T) {
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := start(t, k.Name, Config{Push: "own"})
			c, _, err := websocket.Dial(ctx, "ws://"+r.addr+webSocketPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 10 {
				want := strings.Repeat("é", n*100)
				if err := c.Write(ctx, websocket.MessageText, []byte(want)); err != nil {
					t.Fatal(err)
				}
				kind, got, err := c.Read(ctx)
				if err != nil || kind != websocket.MessageText || string(got) != want {
					t.Fatalf("%d: %v %q, %v", n, kind, got, err)
				}
			}
			s := pushed(t, r.addr)
			for s.Sent < 10 && ctx.Err() == nil { // a message is counted after its write
				s = pushed(t, r.addr)
			}
			if s.Received != 10 || s.Sent != 10 {
				t.Errorf("%+v", s)
			}
			r.stop(t)
			if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
				t.Error("the WebSocket outlives its server")
			}
		})
	}
}

func TestServeRefusesPush(t *testing.T) {
	for kind, cfg := range map[string]Config{
		"floor": {Push: "own"}, "nethttp": {Push: "speed=1"}, "fasthttp": {Push: "rate=0"}, "fiber": {Push: "own", Prefork: true},
	} {
		if err := Serve(t.Context(), kind, cfg); err == nil {
			t.Errorf("%s serves with %+v", kind, cfg)
		}
	}
}
