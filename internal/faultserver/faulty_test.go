package faultserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func serve(t *testing.T, network, address string, script func(int) Script) *Server {
	t.Helper()
	s, err := Listen(network, address, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial(s.network, s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// TestAnswersEachRequest: as many answers as requests, whether they come byte by
// byte or all together, with or without bodies, over each network.
func TestAnswersEachRequest(t *testing.T) {
	post := "POST / HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 5\r\n\r\n\r\n\r\nx"
	all := strings.Repeat(get, 300) + strings.Repeat(post, 300)
	for _, at := range []struct{ network, address string }{
		{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"unix", filepath.Join(t.TempDir(), "s")},
	} {
		s := serve(t, at.network, at.address, Every(Answer(OK("hello"))))
		c := dial(t, s)
		go func() {
			for i := 0; i < 200; i++ {
				io.WriteString(c, all[i:i+1])
			}
			io.WriteString(c, all[200:])
		}()
		r := bufio.NewReader(c)
		for i := range 600 {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("%s: response %d: %v", at.network, i, err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || string(body) != "hello" {
				t.Fatalf("%s: response %d: body %q, %v", at.network, i, body, err)
			}
		}
		// The last answers are here before they are counted; an ended script has counted all.
		c.Close()
		for end := time.Now().Add(10 * time.Second); s.Live() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if s.Requests() != 600 || s.Answers() != 600 || s.Bytes() != uint64(len(all)) || s.Accepted() != 1 {
			t.Errorf("%s: %d requests, %d answers, %d bytes, %d connections", at.network, s.Requests(), s.Answers(), s.Bytes(), s.Accepted())
		}
	}
}

func TestScripts(t *testing.T) {
	s := serve(t, "tcp4", "127.0.0.1:0", InTurn(
		Script{Request(1), Write("a"), Close()},
		Script{Request(1), Reset()},
		Script{HalfClose(), Request(2), Write("x")},
		Script{AnswerTimes(2, "b")},
		Script{Head(), Write("early"), Body(), Drip("late", 1)},
		Script{Loop(Request(1), Times(2, Write("c")))},
	))
	check := func(name, text, want string, wantErr error) {
		t.Helper()
		c := dial(t, s)
		send(t, c, text)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); string(got) != want && wantErr == nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
		if name == "loop" {
			return
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, wantErr) {
			t.Errorf("%s: read %d, %v, want %v", name, n, err, wantErr)
		}
	}
	check("close", get, "a", io.EOF)
	check("reset", get, "", syscall.ECONNRESET)
	check("half close", "", "", io.EOF)
	check("two answers", get+get, "bb", io.EOF)
	check("early answer", "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok", "earlylate", io.EOF)
	check("loop", get+get, "cccc", nil)
	if s.Requests() != 1+1+0+2+1+2 {
		t.Errorf("%d requests", s.Requests())
	}
}

// TestRefuseAndReturn: the port refuses, and later serves again.
func TestRefuseAndReturn(t *testing.T) {
	s := serve(t, "tcp4", "127.0.0.1:0", Every(Answer("y")))
	c := dial(t, s)
	s.Kill()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection of which Kill heard: %v", err)
	}
	if c, err := net.Dial("tcp4", s.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after Kill: %v, %v", c, err)
	}
	if err := s.Accept(); err != nil {
		t.Fatal(err)
	}
	send(t, dial(t, s), get)
}

// TestFreeze: no answer leaves before the thaw.
func TestFreeze(t *testing.T) {
	s := serve(t, "tcp4", "127.0.0.1:0", Every(Answer("y")))
	thaw := s.Freeze()
	c := dial(t, s)
	send(t, c, get)
	for s.Requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	if s.Answers() != 0 {
		t.Error("answered while frozen")
	}
	if took := thaw(); took <= 0 {
		t.Errorf("frozen for %v", took)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestCloseEndsEverything: also who waits for a peer that never reads or sends.
func TestCloseEndsEverything(t *testing.T) {
	s := serve(t, "tcp4", "127.0.0.1:0", InTurn(
		Script{Stall()}, Script{Deaf()}, Script{SmallBuffers(), Endless("z")}, Script{Request(1)}, Script{Answer("y")},
	))
	thaw := s.Freeze()
	for range 5 {
		send(t, dial(t, s), get)
	}
	for s.Accepted() < 5 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if s.Live() != 0 {
		t.Errorf("%d connections are left", s.Live())
	}
	thaw()
	s.Close() // a second one does nothing
}
