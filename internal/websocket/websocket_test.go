package websocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ceiling/internal/http1"
)

// frame is one as a server sends it.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + payload
}

// read takes text in pieces of n bytes, and tells all that it was.
func read(text string, n int) (list []string, err error) {
	var r Reader
	var message []byte
	for rest := []byte(text); len(rest) > 0; {
		b := rest[:min(n, len(rest))]
		rest = rest[len(b):]
		for len(b) > 0 {
			piece, used, is, err := r.Next(b)
			if err != nil {
				return list, err
			}
			message = append(message, piece...)
			b = b[used:]
			switch is {
			case Message:
				list, message = append(list, "message "+string(message)), nil
			case Ping:
				list = append(list, "ping "+string(r.Control()))
			case Pong:
				list = append(list, "pong "+string(r.Control()))
			case Close:
				list = append(list, fmt.Sprint("close ", r.CloseCode()))
			}
		}
	}
	if !r.Idle() {
		list = append(list, "more")
	}
	return list, nil
}

// TestReaderTakesFramesApart: wherever the bytes are cut.
func TestReaderTakesFramesApart(t *testing.T) {
	long, longer := strings.Repeat("é", 200), strings.Repeat("x", 70_000)
	for _, k := range []struct {
		text string
		want []string
	}{
		{frame(0x81, "hello") + frame(0x82, "\xff\x00") + frame(0x81, ""), []string{"message hello", "message \xff\x00", "message "}},
		{frame(0x81, long), []string{"message " + long}},
		{frame(0x82, longer), []string{"message " + longer}},
		{frame(0x01, "a\xe2") + frame(0x89, "p") + frame(0x00, "\x82") + frame(0x80, "\xacb"), []string{"ping p", "message a€b"}},
		{frame(0x02, "") + frame(0x00, "") + frame(0x80, ""), []string{"message "}},
		{frame(0x8a, "") + frame(0x88, "\x03\xe9bye"), []string{"pong ", "close 1001"}},
		{frame(0x88, ""), []string{"close 1005"}},
		{frame(0x01, "half"), []string{"more"}},
		{frame(0x81, "half")[:3], []string{"more"}},
	} {
		for _, n := range []int{1, 2, 3, 7, 1 << 20} {
			got, err := read(k.text, n)
			if err != nil || !slices.Equal(got, k.want) {
				t.Errorf("%.40q in pieces of %d: %.80q, %v; want %.80q", k.text, n, got, err, k.want)
			}
		}
	}
}

// TestReaderRefuses: what breaks the protocol has a name, wherever it is cut.
func TestReaderRefuses(t *testing.T) {
	for _, k := range []struct {
		text string
		want ProtocolError
	}{
		{"\x81\x85abcdhello", ErrMasked},
		{"\xc1\x00", ErrReserved},
		{"\x83\x00", ErrOpcode},
		{"\x8b\x00", ErrOpcode},
		{"\x82\x7e\x00\x7d" + strings.Repeat("x", 125), ErrLength},
		{"\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", ErrLength},
		{"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", ErrLength},
		{"\x82\x7f\x00\x00\x00\x00\x04\x00\x00\x01", ErrTooLarge},
		{"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", ErrTooLarge},
		{"\x09\x00", ErrControlFragment},
		{"\x89\x7e\x00\x7e", ErrControlLength},
		{"\x80\x00", ErrContinuation},
		{frame(0x01, "a") + "\x81\x00", ErrInterleaved},
		{frame(0x81, "\xff"), ErrText},
		{frame(0x81, "a\xe2\x82"), ErrText},
		{frame(0x01, "\xe2") + frame(0x80, "x"), ErrText},
		{frame(0x81, "\xed\xa0\x80"), ErrText},
		{frame(0x88, "\x03"), ErrClosePayload},
		{frame(0x88, "\x03\xe8\xff"), ErrClosePayload},
		{frame(0x88, "\x03\xed"), ErrCloseCode},
		{frame(0x88, "\x03\xe7"), ErrCloseCode},
		{frame(0x88, "\x0b\xb7"), ErrCloseCode},
	} {
		for _, n := range []int{1, 3, 1 << 20} {
			if got, err := read(k.text, n); err != k.want {
				t.Errorf("%.20q in pieces of %d: %q, %v; want %v", k.text, n, got, err, k.want)
			}
		}
	}
}

// TestReaderBoundsMessages: the sum of a message's frames is bounded like one.
func TestReaderBoundsMessages(t *testing.T) {
	for size, want := range map[uint64]error{MaxMessage: ErrTooLarge, MaxMessage - 1: nil} {
		r := Reader{within: opBinary, size: size}
		if _, _, is, err := r.Next([]byte("\x80\x01x")); err != want || (is == Message) != (want == nil) {
			t.Errorf("a byte more than %d: %v, %v", size, is, err)
		}
	}
}

// unmask reads what a client sends, by the letter of section 5.2.
func unmask(t *testing.T, b []byte) (ops []byte, payload []byte) {
	t.Helper()
	for len(b) > 0 {
		ops = append(ops, b[0])
		n, at := uint64(b[1]&0x7f), 2
		switch {
		case b[1]&0x80 == 0:
			t.Fatal("not masked")
		case n == 126:
			n, at = uint64(binary.BigEndian.Uint16(b[2:])), 4
		case n == 127:
			n, at = binary.BigEndian.Uint64(b[2:]), 10
		}
		key := b[at : at+4]
		for i, c := range b[at+4:][:n] {
			payload = append(payload, c^key[i%4])
		}
		b = b[at+4+int(n):]
	}
	return ops, payload
}

func TestMessagesAreMasked(t *testing.T) {
	mask := Mask{1, 2, 3, 0xff}
	for _, size := range []int{5, 0, 200, 70_000} {
		want := bytes.Repeat([]byte("a"), size)
		ops, got := unmask(t, AppendMessage(nil, want, mask))
		if string(ops) != "\x81" || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: frames %q, payload of %d bytes", size, ops, len(got))
		}
	}
	if ops, got := unmask(t, AppendMessage(nil, []byte("\xff"), mask)); string(ops) != "\x82" || string(got) != "\xff" {
		t.Errorf("binary: %q %q", ops, got)
	}
	if ops, got := unmask(t, AppendPong(AppendClose(nil, 1000, mask), []byte("p"), mask)); string(ops) != "\x88\x8a" || string(got) != "\x03\xe8p" {
		t.Errorf("close, pong: %q %q", ops, got)
	}
}

// TestHandshakeIsChecked, with the example of RFC 6455, section 1.3.
func TestHandshakeIsChecked(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	if Key([16]byte([]byte("the sample nonce"))) != key {
		t.Error("the key is not that of the RFC")
	}
	const up, connection, right = "Upgrade: WebSocket\r\n", "Connection: keep-alive, Upgrade\r\n", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
	for _, c := range []struct {
		head string
		want ProtocolError
	}{
		{"101 Switching Protocols\r\n" + up + connection + right, 0},
		{"200 OK\r\n" + up + connection + right, ErrStatus},
		{"101 x\r\n" + connection + right, ErrUpgrade},
		{"101 x\r\n" + up + right, ErrConnection},
		{"101 x\r\n" + up + connection, ErrAccept},
		{"101 x\r\n" + up + connection + right + right, ErrAccept},
		{"101 x\r\n" + up + connection + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n", ErrAccept},
		{"101 x\r\n" + up + connection + right + "Sec-WebSocket-Extensions: permessage-deflate\r\n", ErrExtension},
		{"101 x\r\n" + up + connection + right + "Sec-WebSocket-Protocol: chat\r\n", ErrSubprotocol},
	} {
		head := []byte("HTTP/1.1 " + c.head + "\r\n")
		var lines http1.Lines
		r, n, err := lines.ParseResponse(head, false)
		if err != nil || n != len(head) {
			t.Fatal(n, err)
		}
		if got := CheckAnswer(r.Status, head, lines.List, key, false); got != c.want {
			t.Errorf("%q: %v, want %v", c.head, got, c.want)
		}
		if c.want == ErrSubprotocol && CheckAnswer(r.Status, head, lines.List, key, true) != 0 {
			t.Error("a subprotocol that was asked for is refused")
		}
	}
}

// FuzzReader: no bytes make it panic, or mean something else in other pieces.
func FuzzReader(f *testing.F) {
	f.Add(frame(0x01, "a\xe2")+frame(0x89, "p")+frame(0x80, "\x82\xacb")+frame(0x88, "\x03\xe8"), 3)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = 1 + max(n, 0)%7
		whole, wholeErr := read(text, 1<<20)
		parts, err := read(text, n)
		if err != wholeErr || err == nil && !slices.Equal(whole, parts) {
			t.Errorf("%q: %q, %v whole; %q, %v in pieces of %d", text, whole, wholeErr, parts, err, n)
		}
	})
}
