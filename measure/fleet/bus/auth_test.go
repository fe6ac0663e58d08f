//go:build linux

package bus_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// raw logs in by hand, to try what Conn does not offer.
func (b bed) raw(t *testing.T, o ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect("tls://"+strings.TrimPrefix(b.URL(), "nats://"), append([]nats.Option{
		nats.TLSHandshakeFirst(), nats.NoReconnect(), nats.Timeout(natstest.Patience),
		nats.Secure(&tls.Config{InsecureSkipVerify: true}),
	}, o...)...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func as(t bus.Token) nats.Option { return nats.UserJWTAndSeed(t.JWT, t.Seed) }

func TestStrangersAreRefused(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	stranger := natstest.Serve(t, controller.Options{}).Token()
	if _, err := b.TryJoin(stranger, "web1", bus.Watch{}); !errors.Is(err, bus.ErrTokenOver) ||
		!strings.Contains(err.Error(), "not the controller which made the token") {
		t.Errorf("another certificate: %v", err)
	}
	b.Logged("TLS", "127.0.0.1:", "bad certificate")
	forged := b.Token()
	forged.Seed = stranger.Seed
	for what, login := range map[string]nats.Option{
		"nobody": nil, "a password": nats.UserInfo("_driver", "secret"), "another controller's user": as(stranger),
		"a user without its key": as(forged), "a key without a user": nats.Nkey(b.Token().User, sign(b.Token())),
	} {
		if _, err := b.raw(t, login); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.Logged("authentication error", "127.0.0.1:")
	for _, name := range []string{"", "_other", "a.b", "*", ">", "x\r\ny", strings.Repeat("n", 65)} {
		if _, err := b.TryJoin(b.Token(), name, bus.Watch{}); err == nil || !strings.Contains(err.Error(), "agent ") {
			t.Errorf("agent called %q: %v", name, err)
		}
	}
	// It waits for the server to speak first, which it does not before TLS.
	if _, err := nats.Connect(b.URL(), nats.NoReconnect(), nats.Timeout(time.Second), as(b.Token())); err == nil {
		t.Error("a client without TLS is in")
	}

	b.Join("web1")
	for _, token := range []bus.Token{b.Token(), b.NewToken(time.Hour)} {
		if _, err := b.TryJoin(token, "web1", bus.Watch{}); err == nil || errors.Is(err, bus.ErrTokenOver) ||
			!strings.Contains(err.Error(), "has another agent named web1; start this one with another --name") {
			t.Errorf("a second agent of one name: %v", err)
		}
	}
	token := b.Token()
	if _, err := bus.Join(t.Context(), bus.Access{URL: "127.0.0.1", Token: &token}, "web1", bus.Watch{}); err == nil ||
		!strings.Contains(err.Error(), "nats://host:port") {
		t.Errorf("an address without a port: %v", err)
	}
}

// sign signs as a token's user.
func sign(t bus.Token) nats.SignatureHandler {
	return func(nonce []byte) ([]byte, error) {
		key, err := nkeys.FromSeed([]byte(t.Seed))
		if err != nil {
			return nil, err
		}
		return key.Sign(nonce)
	}
}

// TestPlainAndReplayedBytes are strangers that speak no NATS library.
func TestPlainAndReplayedBytes(t *testing.T) {
	b := parallel(t)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "nats://"))
		if err != nil {
			t.Error(err)
		}
		return c
	}
	say := func(bytes []byte) string {
		c := dial()
		defer c.Close()
		c.SetDeadline(time.Now().Add(natstest.Patience))
		c.Write(bytes)
		answer, _ := io.ReadAll(c) // until the server closes: it must
		return string(answer)
	}
	for _, plain := range []string{"CONNECT {\"user\":\"_driver\"}\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x00", 4096)} {
		if answer := say([]byte(plain)); strings.Contains(answer, "INFO") || strings.Contains(answer, "PONG") {
			t.Errorf("%.20q is answered %q", plain, answer)
		}
	}
	b.Logged("TLS handshake error", "127.0.0.1:")

	// What a true agent sent, recorded between, and sent once more.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	recorded := make(chan []byte, 1)
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out := dial()
		defer out.Close()
		var all bytes.Buffer
		go io.Copy(in, out)
		io.Copy(io.MultiWriter(out, &all), in)
		recorded <- all.Bytes()
	}()
	token := b.Token()
	c, err := bus.Join(natstest.Within(t), bus.Access{URL: "nats://" + l.Addr().String(), Token: &token}, "web1", bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	replay, before := <-recorded, b.Log.String()
	if answer := say(replay); strings.Contains(answer, "INFO") {
		t.Errorf("a replay is answered %q", answer)
	}
	natstest.Await(t, "the replay is in the log", func() bool { return b.Log.String() != before })
}

// TestAnAgentSeesItsOwnOnly tries everything else, and its own.
func TestAnAgentSeesItsOwnOnly(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	violations := make(chan string, 100)
	nc, err := b.raw(t, as(b.Token()), nats.CustomInboxPrefix("_INBOX.lab."+b.Token().User+".me"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	tryEverything(t, nc, violations, b.Bed(), b.Token().User+".me", b.NewToken(time.Hour).User+".me")
}

// tryEverything as agent me of a bed, by its ID, beside an agent other and a bed
// "field" of another's.
func tryEverything(t *testing.T, nc *nats.Conn, violations chan string, bed, me, other string) {
	t.Helper()
	own, lease := "bed."+bed+".", "KV_lease_"+bed
	publish := []string{
		own + "agent." + me + ".command", own + "agent." + other + ".command", own + "agent." + other + ".ping",
		own + "report.r1." + other, own + "report.r1", "bed.field.report.r1." + me, "bed.field.agent." + me + ".command",
		"_INBOX." + bed + "._driver.x", "_INBOX.x", "$SRV.PING", "$KV.agents_" + bed + "." + other, "$KV.agents_field." + me,
		"$KV.lease_" + bed + ".holder", "$O.mine.C.x", "$O.mine.M.x", "$JS.ACK." + lease + ".x.1.1.1.1.1", "$SYS.REQ.SERVER.PING", "anything",
	}
	for _, api := range []string{
		"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.CREATE.mine", "STREAM.CREATE.OBJ_mine", "STREAM.INFO.KV_agents_" + bed,
		"DIRECT.GET.KV_agents_" + bed + ".$KV.agents_" + bed + "." + other, "STREAM.INFO." + lease, "STREAM.DELETE." + lease,
		"STREAM.PURGE." + lease, "STREAM.UPDATE." + lease, "STREAM.SNAPSHOT." + lease, "STREAM.MSG.GET." + lease, "STREAM.MSG.DELETE." + lease,
		"DIRECT.GET." + lease, "DIRECT.GET." + lease + "." + own + "report.r1." + me, "DIRECT.GET." + lease + ".$KV.lease_" + bed + ".holder",
		"DIRECT.GET.KV_lease_field.$KV.lease_field.holder", "CONSUMER.CREATE." + lease, "CONSUMER.CREATE." + lease + ".x",
		"CONSUMER.DURABLE.CREATE." + lease + ".x", "CONSUMER.MSG.NEXT." + lease + ".x",
	} {
		publish = append(publish, "$JS.API."+api)
	}
	subscribe := []string{
		">", "*", "bed.>", own + ">", own + "agent.*.command", own + "agent." + other + ".command", own + "agent." + other + ".>", own + "report.>",
		own + "report.r1." + me, "bed.field.>", "_INBOX.>", "_INBOX." + bed + ".>", "_INBOX." + bed + "." + other + ".>",
		"_INBOX." + bed + "._driver.>", "$SRV.>", "$JS.>", "$JS.API.>", "$JS.EVENT.>", "$KV.>", "$O.>", "$SYS.>",
	}
	for _, subject := range publish {
		if err := nc.PublishRequest(subject, "_INBOX."+bed+"."+me+".x", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		refused(t, nc, violations, "Publish", subject)
	}
	for _, subject := range subscribe {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, nc, violations, "Subscription", subject)
		sub.Unsubscribe()
	}
	// The same way must let its own through, or the test shows nothing.
	if m, err := nc.Request("$KV.agents_"+bed+"."+me, []byte("x"), natstest.Patience); err != nil || !strings.Contains(string(m.Data), "KV_agents_"+bed) {
		t.Errorf("its own offer: %v, %v", m, err)
	}
	if _, err := nc.SubscribeSync(own + "agent." + me + ".command"); err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(own+"report.r1."+me, nil); err != nil {
		t.Error(err)
	}
	if err := nc.FlushTimeout(natstest.Patience); err != nil {
		t.Error(err)
	}
	select {
	case v := <-violations:
		t.Errorf("its own is refused: %s", v)
	default:
	}
}

func refused(t *testing.T, nc *nats.Conn, violations chan string, what, subject string) {
	t.Helper()
	if err := nc.FlushTimeout(natstest.Patience); err != nil {
		t.Fatalf("%s %s: %v", what, subject, err)
	}
	select {
	case v := <-violations:
		if !strings.Contains(strings.ToLower(v), strings.ToLower(what+" to \""+subject+"\"")) {
			t.Errorf("%s %s: %s", what, subject, v)
		}
	case <-time.After(5 * time.Second): // the answer came before the flush's
		t.Errorf("%s to %s is allowed", what, subject)
	}
}

func TestAFloodOfLogins(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	agent(t, b.Join("web1"))
	driver := b.Drive()
	const many = 300
	var group sync.WaitGroup
	var tried, asked atomic.Int64
	for range 4 {
		group.Go(func() {
			for tried.Add(1) <= many || asked.Load() == 0 {
				if _, err := b.raw(t, nats.UserInfo("web1", "wrong")); err == nil {
					t.Error("a wrong password is in")
				}
			}
		})
	}
	for tried.Load() < many || asked.Load() == 0 {
		if _, err := driver.Ask(natstest.Within(t), b.id("web1"), nil); err != nil {
			t.Errorf("during the flood: %v", err)
		}
		asked.Add(1)
	}
	group.Wait()
	if lines := strings.Count(b.Log.String(), "\n"); lines == 0 || lines >= many {
		t.Errorf("%d logins made %d lines in the log", many, lines)
	}
	b.Logged("authentication error")
}

// TestAStalledSocket is an agent that hears and never reads: it is cut off,
// and nobody else notices.
func TestAStalledSocket(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	agent(t, b.Join("web1"))
	driver := b.Drive()
	c, err := tls.Dial("tcp", strings.TrimPrefix(b.URL(), "nats://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(natstest.Patience))
	read := bufio.NewReader(c)
	info, err := read.ReadString('\n')
	var hello struct{ Nonce string }
	if json.Unmarshal([]byte(strings.TrimPrefix(info, "INFO")), &hello) != nil || hello.Nonce == "" {
		t.Fatalf("%q, %v", info, err)
	}
	signed, err := sign(b.Token())([]byte(hello.Nonce))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "CONNECT {\"jwt\":%q,\"sig\":%q,\"verbose\":false,\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\n"+
		"SUB bed.lab.agent.%s.* 1\r\nPING\r\n", b.Token().JWT, base64.RawURLEncoding.EncodeToString(signed), b.id("stalled"))
	if pong, err := read.ReadString('\n'); err != nil || pong != "PONG\r\n" {
		t.Fatalf("%q, %v", pong, err)
	}
	ctx := natstest.Within(t)
	big := make([]byte, 4<<20)
	for range 12 { // 48 MB; the server keeps 32 for it
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		driver.Ask(short, b.id("stalled"), big) // nobody answers
		cancel()
		if _, err := driver.Ask(ctx, b.id("web1"), nil); err != nil {
			t.Fatal(err)
		}
	}
	b.Logged("Slow Consumer", "127.0.0.1:")
	if n, err := io.Copy(io.Discard, read); err != nil && errors.Is(err, net.ErrClosed) {
		t.Errorf("%d bytes, %v: not cut off", n, err)
	}
}
