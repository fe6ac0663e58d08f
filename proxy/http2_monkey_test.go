package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"ceiling/internal/needs"
)

// TestHTTP2DestinationMonkey: a destination that sends frames by chance leaves no request
// without an answer, and the proxy serves on.
func TestHTTP2DestinationMonkey(t *testing.T) {
	needs.Time(t)
	together(t)
	var seed uint64
	var mu sync.Mutex
	good := scripted(t, func(s *script) {
		for id := s.request(); id != 0; id = s.request() {
			s.answer(id, true, ":status", "204")
		}
	})
	uri := scripted(t, func(s *script) {
		mu.Lock()
		seed++
		dice := rand.New(rand.NewPCG(seed, 1))
		mu.Unlock()
		for id := s.request(); id != 0; id = s.request() {
			for range 1 + dice.IntN(6) {
				monkey(s, dice, id-uint32(2*dice.IntN(2)))
			}
			if dice.IntN(4) > 0 {
				_ = s.WriteRSTStream(id, http2.ErrCode(dice.IntN(15)))
			}
			if dice.IntN(8) == 0 {
				return
			}
		}
	})
	for _, engine := range []string{"uring", "epoll"} {
		text := "workers = 1\nlisten = [\"127.0.0.1:0\"]\n[timeouts]\nresponse = \"100ms\"\nidle = \"100ms\"\n"
		for path, to := range map[string]string{"/good": good, "/": uri} {
			text += "[[locations]]\npaths = [\"" + path + "\"]\n[[locations.destinations]]\nuri = \"" + to +
				"\"\nhttp = \"2\"\neject = { failures = -1 }\n"
		}
		r := run(t, engine, text)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(i), 2))
				for range 150 {
					l := dial(t, r.addr)
					text := []string{
						"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
						"POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 5\r\n\r\nhello",
						"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
						"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
					}[dice.IntN(4)]
					l.say(text)
					if dice.IntN(4) > 0 {
						method, _, _ := strings.Cut(text, " ")
						res, err := http.ReadResponse(l.r, &http.Request{Method: method})
						if err == nil && res.StatusCode != 103 {
							_, err = io.Copy(io.Discard, res.Body)
						}
						var late net.Error
						if errors.As(err, &late) && late.Timeout() {
							t.Errorf("%q has no answer", text)
						}
					}
					l.Close()
				}
			})
		}
		all.Wait()
		l := dial(t, r.addr)
		l.status("/good", 204)
		l.Close()
		until(t, "nothing is under way", func() bool {
			s := r.snapshot()
			busy := s.Clients
			for _, u := range s.Upstreams {
				busy += u.Busy + u.Queued
			}
			return busy == 0
		})
		r.stop()
	}
}

// monkey sends one frame.
func monkey(s *script, dice *rand.Rand, id uint32) {
	payload := make([]byte, dice.IntN(40))
	for i := range payload {
		payload[i] = byte(dice.Uint32())
	}
	end := dice.IntN(3) == 0
	switch dice.IntN(14) {
	case 0, 1, 2:
		s.answer(id, end, ":status", []string{"200", "204", "103", "500", "304"}[dice.IntN(5)])
	case 3:
		s.answer(id, end, ":status", "200", "content-length", "5")
	case 4, 5:
		_ = s.WriteData(id, end, payload[:min(len(payload), 5)])
	case 6:
		_ = s.WriteDataPadded(id, end, payload, make([]byte, dice.IntN(100)))
	case 7:
		s.answer(id, end, "x-trailer", "1")
	case 8:
		_ = s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: dice.Uint32N(1 << 17)},
			http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: dice.Uint32N(9)})
	case 9:
		_ = s.WriteWindowUpdate(id*dice.Uint32N(2), dice.Uint32N(1<<31))
	case 10:
		_ = s.WritePing(end, [8]byte{})
	case 11:
		_ = s.WriteGoAway(id, http2.ErrCode(dice.IntN(15)), payload)
	case 12:
		if dice.IntN(4) == 0 {
			_ = s.WriteRawFrame(http2.FrameType(dice.IntN(12)), http2.Flags(dice.Uint32()), id, payload)
		}
	case 13:
		if dice.IntN(4) == 0 {
			_, _ = s.conn.Write(payload)
		}
	}
}
