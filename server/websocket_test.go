//go:build linux

package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestFrameworksEcho: a WebSocket answers every message with itself, and ends with its server.
func TestFrameworksEcho(t *testing.T) {
	for _, k := range kindsWithDatabase() {
		t.Run(k.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := start(t, k.Name, Config{})
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
			r.stop(t)
			if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
				t.Error("the WebSocket outlives its server")
			}
		})
	}
}
