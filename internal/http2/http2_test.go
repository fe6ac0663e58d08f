package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"ceiling/internal/needs"
)

// told writes an event down; the pieces of a DATA frame come to one line.
type told struct {
	strings.Builder
	data []byte
	flow uint32
}

func (t *told) event(e *Event, inside bool) {
	switch e.Type {
	case Data:
		t.data = append(t.data, e.Payload...)
		t.flow += e.Flow
		if !inside {
			fmt.Fprintf(t, "DATA %d %q flow %d end %v\n", e.Stream, t.data, t.flow, e.End)
			t.data, t.flow = nil, 0
		}
	case Headers:
		fmt.Fprintf(t, "HEADERS %d %q end %v\n", e.Stream, e.Payload, e.End)
	case PushPromise:
		fmt.Fprintf(t, "PUSH_PROMISE %d %d %q\n", e.Stream, e.Promised, e.Payload)
	case ResetStream:
		fmt.Fprintf(t, "RST_STREAM %d %d\n", e.Stream, e.Code)
	case SettingsFrame:
		fmt.Fprintf(t, "SETTINGS %v %x\n", e.Flags&Ack != 0, e.Payload)
	case Ping:
		fmt.Fprintf(t, "PING %v %x\n", e.Flags&Ack != 0, e.Payload)
	case GoAway:
		fmt.Fprintf(t, "GOAWAY %d %d %q\n", e.Promised, e.Code, e.Payload[8:])
	case WindowUpdate:
		fmt.Fprintf(t, "WINDOW_UPDATE %d %d\n", e.Stream, e.Promised)
	}
}

// ours reads wire in pieces whose lengths cut says, and answers what it told and how
// it ended.
func ours(wire []byte, cut func() int) (string, *Error) {
	r := Reader{FloodMost: 1 << 30}
	var t told
	for len(wire) > 0 {
		piece := bytes.Clone(wire[:min(max(cut(), 1), len(wire))])
		wire = wire[len(piece):]
		for len(piece) > 0 {
			ev, n, err := r.Next(piece)
			if err != nil && err.Stream == 0 {
				return t.String(), err
			}
			if n == 0 && ev == nil && err == nil {
				return t.String(), fault(InternalError, "the reader stands still")
			}
			if ev != nil {
				t.event(ev, r.inData)
			}
			for k := range n {
				piece[k] = 0xcc // an event must not depend on bytes that were given back
			}
			piece = piece[n:]
		}
	}
	return t.String(), nil
}

// theirs reads the same with golang.org/x/net's Framer.
func theirs(wire []byte) (string, error) {
	fr := http2.NewFramer(io.Discard, bytes.NewReader(wire))
	fr.SetMaxReadFrameSize(DefaultFrame)
	var t told
	var e Event
	for {
		f, err := fr.ReadFrame()
		var ofStream http2.StreamError
		if errors.As(err, &ofStream) {
			continue
		}
		if err != nil {
			return t.String(), err
		}
		h := f.Header()
		switch f := f.(type) {
		case *http2.DataFrame:
			t.event(&Event{Type: Data, Stream: h.StreamID, Payload: f.Data(), Flow: h.Length, End: f.StreamEnded()}, false)
		case *http2.HeadersFrame:
			e = Event{Type: Headers, Stream: h.StreamID, Payload: bytes.Clone(f.HeaderBlockFragment()), End: f.StreamEnded()}
			if f.HeadersEnded() {
				t.event(&e, false)
			}
		case *http2.PushPromiseFrame:
			e = Event{Type: PushPromise, Stream: h.StreamID, Promised: f.PromiseID, Payload: bytes.Clone(f.HeaderBlockFragment())}
			if f.HeadersEnded() {
				t.event(&e, false)
			}
		case *http2.ContinuationFrame:
			if e.Payload = append(e.Payload, f.HeaderBlockFragment()...); f.HeadersEnded() {
				t.event(&e, false)
			}
		case *http2.RSTStreamFrame:
			t.event(&Event{Type: ResetStream, Stream: h.StreamID, Code: Code(f.ErrCode)}, false)
		case *http2.SettingsFrame:
			var payload []byte
			_ = f.ForeachSetting(func(s http2.Setting) error {
				payload = append(payload, byte(s.ID>>8), byte(s.ID), byte(s.Val>>24), byte(s.Val>>16), byte(s.Val>>8), byte(s.Val))
				return nil
			})
			t.event(&Event{Type: SettingsFrame, Flags: uint8(h.Flags), Payload: payload}, false)
		case *http2.PingFrame:
			t.event(&Event{Type: Ping, Flags: uint8(h.Flags), Payload: f.Data[:]}, false)
		case *http2.GoAwayFrame:
			t.event(&Event{Type: GoAway, Promised: f.LastStreamID, Code: Code(f.ErrCode), Payload: append(make([]byte, 8), f.DebugData()...)}, false)
		case *http2.WindowUpdateFrame:
			t.event(&Event{Type: WindowUpdate, Stream: h.StreamID, Promised: f.Increment}, false)
		}
	}
}

// frames of every kind, by another implementation.
func frames(random *rand.Rand) []byte {
	var b bytes.Buffer
	fr := http2.NewFramer(&b, nil)
	text := func(most int) []byte { return bytes.Repeat([]byte{'x'}, random.IntN(most)) }
	for range 1 + random.IntN(20) {
		stream := 1 + random.Uint32N(1000)
		var err error
		switch random.IntN(9) {
		case 0:
			err = fr.WriteData(stream, random.IntN(2) == 0, text(5000))
		case 1:
			err = fr.WriteDataPadded(stream, random.IntN(2) == 0, text(5000), make([]byte, random.IntN(256)))
		case 2:
			last := random.IntN(2) == 0
			err = fr.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: text(3000), EndStream: random.IntN(2) == 0, EndHeaders: last, PadLength: uint8(random.IntN(256)),
				Priority: http2.PriorityParam{StreamDep: random.Uint32N(2) * 2000, Weight: 3},
			})
			for !last && err == nil {
				last = random.IntN(3) == 0
				err = fr.WriteContinuation(stream, last, text(3000))
			}
		case 3:
			err = fr.WriteRSTStream(stream, http2.ErrCode(random.IntN(20)))
		case 4:
			err = fr.WriteSettings(http2.Setting{ID: http2.SettingID(1 + random.IntN(6)), Val: random.Uint32N(2)}, http2.Setting{ID: 99, Val: 7})
		case 5:
			err = fr.WritePing(random.IntN(2) == 0, [8]byte{1, 2, 3})
		case 6:
			err = fr.WriteGoAway(stream, http2.ErrCodeNo, text(40))
		case 7:
			err = fr.WriteWindowUpdate(stream, 1+random.Uint32N(1<<30))
		case 8:
			err = fr.WritePushPromise(http2.PushPromiseParam{
				StreamID: stream, PromiseID: stream + 1, BlockFragment: text(90), EndHeaders: true, PadLength: 3,
			})
		}
		if err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// TestReaderAgrees reads what another implementation writes, cut at any place, as that
// one does.
func TestReaderAgrees(t *testing.T) {
	needs.Time(t)
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		wire := frames(random)
		want, err := theirs(wire)
		if err != io.EOF {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, most := range []int{1, 12, 3000, 1 << 20} {
			got, fail := ours(wire, func() int { return random.IntN(most) })
			if fail != nil || got != want {
				t.Fatalf("seed %d, pieces of up to %d: %v\n%.3000s\nanother reader:\n%.3000s", seed, most, fail, got, want)
			}
		}
	}
}

// FuzzReader holds the reader against another one on any bytes, in pieces. The other
// takes frames that ours refuses in one case: SETTINGS it looks into at once.
func FuzzReader(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(frames(rand.New(rand.NewPCG(seed, 1))), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, wire []byte, most uint8) {
		random := rand.New(rand.NewPCG(1, uint64(most)))
		got, fail := ours(wire, func() int { return random.IntN(int(most) + 1) })
		whole, same := ours(wire, func() int { return len(wire) })
		if (fail == nil) != (same == nil) || fail == nil && got != whole {
			t.Errorf("in pieces %v, at once %v\n%s\n%s", fail, same, got, whole)
		}
		want, err := theirs(wire)
		if fail == nil && err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, http2.ErrFrameTooLarge) {
			// What is refused there for what it says is refused here by Settings.Apply.
			var conn http2.ConnectionError
			if !errors.As(err, &conn) || http2.ErrCode(conn) != http2.ErrCodeProtocol && http2.ErrCode(conn) != http2.ErrCodeFlowControl {
				t.Errorf("not refused: another reader says %v", err)
			}
		}
		if fail == nil && err == io.EOF && got != want {
			t.Errorf("read %s\nanother reader %s", got, want)
		}
	})
}

func TestReaderRefuses(t *testing.T) {
	block := func(flags uint8, payload string) []byte {
		return append(AppendHeader(nil, len(payload), Headers, flags, 1), payload...)
	}
	frame := func(kind Type, stream uint32, payload string) []byte {
		return append(AppendHeader(nil, len(payload), kind, 0, stream), payload...)
	}
	for name, c := range map[string]struct {
		wire []byte
		code Code
	}{
		"longer than announced":          {AppendHeader(nil, DefaultFrame+1, Data, 0, 1), FrameSizeError},
		"DATA on no stream":              {frame(Data, 0, "x"), ProtocolError},
		"PING on a stream":               {frame(Ping, 1, "12345678"), ProtocolError},
		"PING of seven bytes":            {frame(Ping, 0, "1234567"), FrameSizeError},
		"SETTINGS of five bytes":         {frame(SettingsFrame, 0, "12345"), FrameSizeError},
		"GOAWAY too short":               {frame(GoAway, 0, "1234567"), FrameSizeError},
		"RST_STREAM too long":            {frame(ResetStream, 1, "12345"), FrameSizeError},
		"WINDOW_UPDATE too short":        {frame(WindowUpdate, 0, "123"), FrameSizeError},
		"WINDOW_UPDATE of 0":             {AppendWindowUpdate(nil, 0, 0), ProtocolError},
		"CONTINUATION alone":             {frame(Continuation, 1, "x"), ProtocolError},
		"a frame in a header block":      {append(block(0, "x"), frame(Ping, 0, "12345678")...), ProtocolError},
		"CONTINUATION of another":        {append(block(0, "x"), frame(Continuation, 3, "x")...), ProtocolError},
		"padding over the frame":         {block(Padded|EndHeaders, "\x01"), ProtocolError},
		"padding without its length":     {block(Padded|EndHeaders, ""), FrameSizeError},
		"DATA padding over the frame":    {append(AppendHeader(nil, 2, Data, Padded, 1), 2, 0), ProtocolError},
		"a stream that waits for itself": {block(Prioritied|EndHeaders, "\x00\x00\x00\x01\x00"), ProtocolError},
	} {
		for _, most := range []int{1, 100} {
			if _, err := ours(c.wire, func() int { return most }); err == nil || err.Code != c.code {
				t.Errorf("%s: %v, expected %s", name, err, c.code)
			}
		}
	}
	floods := map[string][]byte{
		"PING": AppendPing(nil, make([]byte, 8), false), "SETTINGS": AppendSettings(nil), "empty DATA": frame(Data, 1, ""),
		"an unknown type": frame(77, 1, "x"),
	}
	for name, one := range floods {
		r := Reader{}
		if err := drain(&r, bytes.Repeat(one, DefaultFlood)); err != nil {
			t.Errorf("%s: %v within the limit", name, err)
		}
		if err := drain(&r, one); err == nil || err.Code != EnhanceYourCalm {
			t.Errorf("a flood of %s: %v", name, err)
		}
	}
	measured := Reader{}
	for range 3 * DefaultFlood {
		measured.Forgive()
		if err := drain(&measured, floods["PING"]); err != nil {
			t.Fatalf("PINGs, one for each DATA frame that was sent: %v", err)
		}
	}
	if err := drain(&measured, bytes.Repeat(floods["PING"], DefaultFlood+1)); err == nil || err.Code != EnhanceYourCalm {
		t.Errorf("a flood of PING after data was sent: %v", err)
	}
	r := Reader{}
	endless := append(block(0, "x"), bytes.Repeat(frame(Continuation, 1, ""), DefaultFlood+1)...)
	if err := drain(&r, endless); err == nil || err.Code != EnhanceYourCalm {
		t.Errorf("a flood of CONTINUATION: %v", err)
	}
	r = Reader{BlockMost: 100}
	if err := drain(&r, append(block(0, strings.Repeat("x", 60)), frame(Continuation, 1, strings.Repeat("x", 60))...)); err == nil ||
		err.Code != EnhanceYourCalm {
		t.Errorf("a long header block: %v", err)
	}
}

func drain(r *Reader, b []byte) *Error {
	for len(b) > 0 {
		_, n, err := r.Next(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// TestWritten holds what we write against another reader.
func TestWritten(t *testing.T) {
	var b []byte
	b = AppendSettings(b, Setting{HeaderTableSize, 0}, Setting{InitialWindowSize, MaxWindow})
	b = AppendSettingsAck(b)
	b = AppendBlock(b, 1, []byte(strings.Repeat("h", 40000)), true, DefaultFrame)
	b = AppendBlock(b, 3, []byte("short"), false, DefaultFrame)
	b = append(AppendHeader(b, 4, Data, EndStream, 3), "body"...)
	b = AppendReset(b, 3, Cancel)
	b = AppendPing(b, []byte("12345678"), true)
	b = AppendGoAway(b, 7, NoError)
	b = AppendWindowUpdate(b, 0, MaxWindow-DefaultWindow)
	want, err := theirs(b)
	if err != io.EOF {
		t.Fatal(err)
	}
	got, fail := ours(b, func() int { return 1000 })
	if fail != nil || got != want || strings.Count(got, "\n") != 9 {
		t.Errorf("%v\n%.300s\nanother reader:\n%.300s", fail, got, want)
	}
}

func TestSettings(t *testing.T) {
	s := DefaultSettings()
	payload := AppendSettings(nil, Setting{HeaderTableSize, 1}, Setting{EnablePush, 0}, Setting{MaxConcurrentStreams, 3},
		Setting{InitialWindowSize, 4}, Setting{MaxFrameSize, 1 << 15}, Setting{MaxHeaderListSize, 6}, Setting{EnableConnect, 1}, Setting{99, 1})
	if err := s.Apply(payload[HeaderBytes:]); err != nil || s != (Settings{1, 3, 4, 1 << 15, 6, false, true}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []struct {
		Setting
		code Code
	}{
		{Setting{EnablePush, 2}, ProtocolError}, {Setting{InitialWindowSize, MaxWindow + 1}, FlowControlError},
		{Setting{MaxFrameSize, DefaultFrame - 1}, ProtocolError}, {Setting{MaxFrameSize, MaxFrame + 1}, ProtocolError},
		{Setting{EnableConnect, 0}, ProtocolError},
	} {
		if err := s.Apply(AppendSettings(nil, c.Setting)[HeaderBytes:]); err == nil || err.Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestWindows(t *testing.T) {
	w := Window(DefaultWindow)
	if n := w.Take(100000); n != DefaultWindow || w != 0 {
		t.Errorf("%d of 100000 sent, %d left", n, w)
	}
	if !w.Grow(-DefaultWindow) || w.Take(1) != 0 { // SETTINGS made it 0 in mid-flight
		t.Errorf("a window of %d lets something through", w)
	}
	if !w.Grow(DefaultWindow+1) || w.Take(5) != 1 {
		t.Error("a window does not open again")
	}
	if w = 1; w.Grow(MaxWindow) || w != 1 {
		t.Error("a window over 2^31-1 is accepted")
	}
	c := NewCredit(1000)
	if !c.Spend(600) || c.Spend(401) || !c.Spend(400) {
		t.Error("credit is not counted")
	}
	if got := []uint32{c.Return(400), c.Return(100), c.Return(400)}; got[0] != 0 || got[1] != 500 || got[2] != 0 {
		t.Errorf("given back: %v", got)
	}
	if !c.Spend(500) || c.Spend(1) {
		t.Error("what was given back cannot be spent")
	}
}

func TestNoAllocation(t *testing.T) {
	var wire []byte
	for stream := uint32(1); stream < 40; stream += 2 {
		wire = AppendBlock(wire, stream, []byte("a header block"), false, DefaultFrame)
		wire = append(AppendHeader(wire, 16, Data, EndStream, stream), "sixteen bytes .."...)
	}
	r := Reader{}
	if n := testing.AllocsPerRun(1000, func() {
		if err := drain(&r, wire[:501]); err != nil {
			t.Fatal(err)
		}
		if err := drain(&r, wire[501:]); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for 20 answers", n)
	}
}

// TestShrink: a reader keeps little memory of a large block, and loses nothing of what is to
// come.
func TestShrink(t *testing.T) {
	var r Reader
	read := func(wire []byte) (last *Event) {
		t.Helper()
		for len(wire) > 0 {
			ev, n, err := r.Next(wire[:min(len(wire), 1000)])
			if err != nil {
				t.Fatal(err)
			}
			if wire = wire[n:]; ev != nil {
				last = ev
			}
		}
		return last
	}
	wire := AppendBlock(nil, 1, bytes.Repeat([]byte("x"), 50_000), true, DefaultFrame)
	if ev := read(wire); ev == nil || len(ev.Payload) != 50_000 {
		t.Fatalf("%+v", ev)
	}
	if r.Shrink(); cap(r.joined) > keptBytes || cap(r.partial) > keptBytes || r.begun.Payload != nil || r.event.Payload != nil {
		t.Errorf("%d and %d bytes are kept", cap(r.joined), cap(r.partial))
	}
	for _, cut := range []int{5, 12_000, 20_000} { // within a header, a frame and a block
		read(wire[:cut])
		r.Shrink()
		if ev := read(wire[cut:]); ev == nil || ev.Stream != 1 || !ev.End || string(ev.Payload) != strings.Repeat("x", 50_000) {
			t.Errorf("cut behind %d bytes: %+v", cut, ev)
		}
	}
}
