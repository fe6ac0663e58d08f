//go:build linux

package bus_test

import (
	"bufio"
	"context"
	"crypto/tls"
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

	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

// raw logs in by hand, as whoever, to try what Conn does not offer.
func (b *bed) raw(t *testing.T, user, password string, o ...nats.Option) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect("tls://"+strings.TrimPrefix(b.URL(), "nats://"), append([]nats.Option{
		nats.UserInfo(user, password), nats.TLSHandshakeFirst(), nats.NoReconnect(), nats.Timeout(patience),
		nats.Secure(&tls.Config{InsecureSkipVerify: true}),
	}, o...)...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

func (b *bed) password(own string) string { return fmt.Sprintf("%x.%s", b.Token().Secret, own) }

const ownSecret = "00112233445566778899aabbccddeeff"

// logged waits until the controller's log has a line with all of these.
func (b *bed) logged(t *testing.T, parts ...string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
	lines:
		for line := range strings.Lines(b.log.String()) {
			for _, p := range parts {
				if !strings.Contains(line, p) {
					continue lines
				}
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no line with %q in the log:\n%s", parts, b.log)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	ctx := within(t)
	join := func(name string, change func(*bus.Token)) error {
		token := b.Token()
		change(&token)
		c, err := bus.Join(ctx, b.URL(), token.String(), name, bus.Watch{})
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := join("web1", func(k *bus.Token) { k.Secret[0] ^= 1 }); !errors.Is(err, bus.ErrRefused) {
		t.Errorf("wrong secret: %v", err)
	}
	b.logged(t, "login from 127.0.0.1:", "wrong token")
	if err := join("web1", func(k *bus.Token) { k.Authority[0] ^= 1 }); !errors.Is(err, bus.ErrStranger) {
		t.Errorf("another CA: %v", err)
	}
	b.logged(t, "TLS", "127.0.0.1:", "bad certificate")
	if _, err := b.raw(t, "_driver", b.password(ownSecret)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("an agent as the controller: %v", err)
	}
	b.logged(t, "as the controller", "127.0.0.1:")
	for _, name := range []string{"", "_other", "a.b", "*", ">", "x\r\ny", strings.Repeat("n", 65)} {
		if _, err := b.raw(t, name, b.password(ownSecret)); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("agent called %q: %v", name, err)
		}
	}
	// It waits for the server to speak first, which it does not before TLS.
	if _, err := nats.Connect(b.URL(), nats.NoReconnect(), nats.Timeout(time.Second)); err == nil {
		t.Error("a client without TLS is in")
	}
	if _, err := nats.Connect(b.URL(), nats.NoReconnect(), nats.Timeout(patience), nats.TLSHandshakeFirst(),
		nats.Secure(&tls.Config{InsecureSkipVerify: true})); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("nobody: %v", err)
	}

	b.join(t, "web1")
	if _, err := b.raw(t, "web1", b.password(ownSecret)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a second agent of one name: %v", err)
	}
	b.logged(t, "another agent is called web1")
	if _, err := bus.Join(ctx, "127.0.0.1", b.Token().String(), "web1", bus.Watch{}); err == nil ||
		!strings.Contains(err.Error(), "nats://host:port") {
		t.Errorf("an address without a port: %v", err)
	}
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := bus.Join(soon, "nats://127.0.0.1:1", b.Token().String(), "web1", bus.Watch{}); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestPlainAndReplayedBytes are strangers that speak no NATS library.
func TestPlainAndReplayedBytes(t *testing.T) {
	t.Parallel()
	b := serve(t, controller.Options{})
	address := strings.TrimPrefix(b.URL(), "nats://")
	say := func(bytes []byte) string {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		c.Write(bytes)
		answer, _ := io.ReadAll(c) // until the server closes: it must
		return string(answer)
	}
	for _, plain := range []string{"CONNECT {\"user\":\"_driver\"}\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", strings.Repeat("\x00", 4096)} {
		if answer := say([]byte(plain)); strings.Contains(answer, "INFO") || strings.Contains(answer, "PONG") {
			t.Errorf("%.20q is answered %q", plain, answer)
		}
	}
	b.logged(t, "TLS handshake error", "127.0.0.1:")

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
		out, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer out.Close()
		var all strings.Builder
		go io.Copy(in, out)
		io.Copy(io.MultiWriter(out, &all), in)
		recorded <- []byte(all.String())
	}()
	c, err := bus.Join(within(t), "nats://"+l.Addr().String(), b.Token().String(), "web1", bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	bytes := <-recorded
	before := strings.Count(b.log.String(), "\n")
	if answer := say(bytes); strings.Contains(answer, "INFO") {
		t.Errorf("a replay is answered %q", answer)
	}
	for end := time.Now().Add(patience); strings.Count(b.log.String(), "\n") == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the replay is not in the log")
		}
	}
}

// TestAnAgentSeesItsOwnOnly tries everything else, and its own.
func TestAnAgentSeesItsOwnOnly(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{Bed: "lab"})
	ctx := within(t)
	driver := b.drive(t)
	if err := driver.PutSpec(ctx, "r1", []byte("spec")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"me", "other"} {
		if err := driver.OpenProfiles(ctx, name, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	violations := make(chan string, 100)
	nc, err := b.raw(t, "me", b.password(ownSecret), nats.CustomInboxPrefix("_INBOX.lab.me"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	tryEverything(t, nc, violations, b.Bed())
	if spec, err := driver.GetSpec(ctx, "r1"); err != nil || string(spec) != "spec" {
		t.Errorf("the spec is %q, %v", spec, err)
	}
}

// tryEverything as agent "me" of bed lab, beside an agent "other" and a bed
// "field" of another's.
func tryEverything(t *testing.T, nc *nats.Conn, violations chan string, bed string) {
	t.Helper()
	own := "bed." + bed + "."
	publish := []string{
		own + "agent.me.command", own + "agent.other.command", own + "agent.other.ping", own + "agent.other.about",
		own + "sample.r1.other", own + "sample.r1", "bed.field.sample.r1.me", "bed.field.agent.me.command", "_INBOX." + bed + "._driver.x",
		"_INBOX.x", "$SRV.PING", "$SRV.PING.ceiling-agent-" + bed, "$SRV.INFO.ceiling-agent-" + bed,
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.samples_" + bed,
		"$JS.API.STREAM.DELETE.samples_" + bed,
		"$JS.API.STREAM.PURGE.samples_" + bed, "$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.UPDATE.samples_" + bed,
		"$JS.API.STREAM.MSG.GET.samples_" + bed, "$JS.API.STREAM.MSG.DELETE.samples_" + bed, "$JS.API.DIRECT.GET.samples_" + bed,
		"$JS.API.DIRECT.GET.samples_" + bed + "." + own + "sample.r1.me", "$JS.API.CONSUMER.CREATE.samples_" + bed,
		"$JS.API.CONSUMER.CREATE.samples_" + bed + ".x",
		"$JS.API.CONSUMER.DURABLE.CREATE.samples_" + bed + ".x", "$JS.API.CONSUMER.MSG.NEXT.samples_" + bed + ".x",
		"$JS.API.STREAM.SNAPSHOT.samples_" + bed,
		"$JS.API.STREAM.INFO.KV_specs_" + bed, "$JS.API.DIRECT.GET.KV_specs_" + bed, "$JS.API.STREAM.MSG.GET.KV_specs_" + bed,
		"$JS.API.STREAM.DELETE.KV_specs_" + bed, "$KV.specs_" + bed + ".r1",
		"$JS.API.DIRECT.GET.KV_specs_field.$KV.specs_field.r1", "$KV.lease_" + bed + ".holder",
		"$JS.API.DIRECT.GET.KV_lease_" + bed + ".$KV.lease_" + bed + ".holder", "$JS.API.STREAM.DELETE.KV_lease_" + bed,
		"$O.profiles_" + bed + "_other.C.x", "$O.profiles_" + bed + "_other.M.x", "$JS.API.STREAM.INFO.OBJ_profiles_" + bed + "_other",
		"$JS.API.STREAM.DELETE.OBJ_profiles_" + bed + "_me",
		"$JS.API.DIRECT.GET.OBJ_profiles_" + bed + "_other.$O.profiles_" + bed + "_other.M.x", "$JS.ACK.samples_" + bed + ".x.1.1.1.1.1",
		"$SYS.REQ.SERVER.PING", "anything",
	}
	subscribe := []string{
		">", "*", "bed.>", own + ">", own + "agent.*.command", own + "agent.other.command", own + "agent.other.>", own + "sample.>",
		own + "sample.r1.me", "bed.field.>",
		"_INBOX.>", "_INBOX." + bed + ".>", "_INBOX." + bed + ".other.>", "_INBOX." + bed + "._driver.>", "$SRV.>",
		"$SRV.PING.ceiling-agent-field",
		"$JS.>", "$JS.API.>", "$JS.EVENT.>", "$KV.>", "$O.>", "$SYS.>",
	}
	for _, subject := range publish {
		if err := nc.PublishRequest(subject, "_INBOX."+bed+".me.x", []byte("{}")); err != nil {
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
	if _, err := nc.SubscribeSync(own + "agent.me.command"); err != nil {
		t.Fatal(err)
	}
	if m, err := nc.Request(own+"sample.r1.me", []byte("x"), patience); err != nil || !strings.Contains(string(m.Data), "samples_"+bed) {
		t.Errorf("its own sample: %v, %v", m, err)
	}
	if m, err := nc.Request("$JS.API.DIRECT.GET.KV_specs_"+bed+".$KV.specs_"+bed+".r1", nil, patience); err != nil ||
		string(m.Data) != "spec" {
		t.Errorf("the spec: %v, %v", m, err)
	}
	select {
	case v := <-violations:
		t.Errorf("its own is refused: %s", v)
	default:
	}
}

func refused(t *testing.T, nc *nats.Conn, violations chan string, what, subject string) {
	t.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
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
	t.Parallel()
	b := serve(t, controller.Options{})
	agent(t, b.join(t, "web1"))
	driver := b.drive(t)
	ctx := within(t)
	var group sync.WaitGroup
	var tried atomic.Int64
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.raw(t, "web1", "wrong"); err == nil {
					t.Error("a wrong password is in")
				}
				tried.Add(1)
			}
		})
	}
	for tried.Load() < 300 {
		if _, err := driver.Ping(ctx, "web1", nil); err != nil {
			t.Errorf("during the flood: %v", err)
			break
		}
	}
	close(stop)
	group.Wait()
	if lines := strings.Count(b.log.String(), "\n"); lines == 0 || lines >= int(tried.Load()) {
		t.Errorf("%d logins made %d lines in the log", tried.Load(), lines)
	}
	b.logged(t, "wrong token")
}

// TestAStalledSocket is an agent that hears and never reads: it is cut off,
// and nobody else notices.
func TestAStalledSocket(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	b := serve(t, controller.Options{})
	agent(t, b.join(t, "web1"))
	driver := b.drive(t)
	c, err := tls.Dial("tcp", strings.TrimPrefix(b.URL(), "nats://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	read := bufio.NewReader(c)
	if info, err := read.ReadString('\n'); err != nil || !strings.HasPrefix(info, "INFO") {
		t.Fatalf("%q, %v", info, err)
	}
	fmt.Fprintf(c, "CONNECT {\"user\":\"stalled\",\"pass\":%q,\"verbose\":false,\"protocol\":1,\"headers\":true,\"no_responders\":true}\r\nSUB bed.lab.agent.stalled.* 1\r\nPING\r\n", b.password(ownSecret))
	if pong, err := read.ReadString('\n'); err != nil || pong != "PONG\r\n" {
		t.Fatalf("%q, %v", pong, err)
	}
	ctx := within(t)
	short, cancel := context.WithCancel(ctx)
	cancel()
	big := make([]byte, bus.MaxBody)
	line, err := driver.Line("stalled", bus.Session{Clock: func() time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	for range 12 { // 48 MB; the server keeps 32 for it
		line.Do(short, "prepare", "r1", big)
		if _, err := driver.Ping(ctx, "web1", nil); err != nil {
			t.Fatal(err)
		}
	}
	b.logged(t, "Slow Consumer", "127.0.0.1:")
	if n, err := io.Copy(io.Discard, read); err != nil && errors.Is(err, net.ErrClosed) {
		t.Errorf("%d bytes, %v: not cut off", n, err)
	}
}
