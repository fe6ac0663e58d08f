//go:build linux

package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
)

// organisation runs a NATS server as somebody's own: from a configuration file
// with the accounts in testdata, and a certificate of another CA.
func organisation(t *testing.T) (port int, ca string) {
	t.Helper()
	accounts, err := os.ReadFile("testdata/accounts.conf")
	if err != nil {
		t.Fatal(err)
	}
	const field = "accounts {\n  ceiling_field { jetstream: enabled, users: [ { user: fielddriver, password: $CEILING_DRIVER } ] }\n"
	return natstest.Start(t, strings.Replace(string(accounts), "accounts {\n", field, 1))
}

func TestAnOrganisationsOwnNATS(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	port, ca := organisation(t)
	ctx := natstest.Within(t)
	at := func(user string) bus.Access {
		return bus.Access{Bed: "lab", URL: fmt.Sprintf("tls://%s@127.0.0.1:%d", user, port), CA: ca}
	}
	driver, err := bus.Drive(ctx, at("driver:d-secret"), bus.Watch{Say: func(line string) {
		if !strings.Contains(line, "without a number") { // from an agent that tries everything
			t.Error("driver:", line)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	for range 2 { // the second finds everything there
		if err := driver.Furnish(ctx, bus.LeaseTTL); err != nil {
			t.Fatal(err)
		}
	}
	me, err := bus.Join(ctx, at("me:a-secret"), "me", bus.Watch{Say: func(line string) {
		if !strings.Contains(line, "$JS.API.") { // which it tries below
			t.Error("me:", line)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	agent(t, me)
	if found, err := driver.Agents(ctx); err != nil || len(found) != 1 || found[0].Name != "me" {
		t.Fatalf("found %v, %v", found, err)
	}
	if answer, err := driver.Ask(ctx, "me", []byte("x")); err != nil || string(answer) != "did x" {
		t.Errorf("%q, %v", answer, err)
	}
	stop, err := driver.Reports("r1", func(r bus.Report) bool { return r.Agent == "me" && string(r.Body) == "x" })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(me.Report(ctx, "r1", 0, []byte("x")), stop()); err != nil {
		t.Error(err)
	}
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := me.Furnish(soon, time.Second); err == nil {
		t.Error("an agent makes streams")
	}
	ownStrangers(t, at, ca, port)
}

func ownStrangers(t *testing.T, at func(string) bus.Access, ca string, port int) {
	ctx := natstest.Within(t)
	refuse := func(what string, o bus.Access, want string) {
		t.Helper()
		c, err := bus.Join(ctx, o, "me", bus.Watch{})
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	refuse("a wrong password", at("me:wrong"), "refuses")
	refuse("no CA", bus.Access{Bed: "lab", URL: at("me:a-secret").URL}, "certificate")
	refuse("no test bed", bus.Access{URL: at("me:a-secret").URL, CA: ca}, "test bed")
	refuse("no credentials file", bus.Access{Bed: "lab", URL: at("me").URL, CA: ca, Creds: "/nowhere"}, "/nowhere")
	// The driver of another bed has another account: it sees nobody.
	field := at("fielddriver:d-secret")
	field.Bed = "field"
	other, err := bus.Drive(ctx, field, bus.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if found, err := other.Agents(ctx); err == nil || len(found) != 0 {
		t.Errorf("the other bed finds %v, %v", found, err)
	}
	if _, err := other.Acquire(ctx, "x"); err == nil {
		t.Error("the other bed's bucket is not there, and yet")
	}
	// And an agent of this one tries everything.
	pem, err := os.ReadFile(ca)
	if err != nil || len(pem) == 0 {
		t.Fatal(err)
	}
	violations := make(chan string, 100)
	nc, err := nats.Connect(at("me:a-secret").URL, nats.RootCAs(ca), nats.NoReconnect(), nats.CustomInboxPrefix("_INBOX.lab.me"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tryEverything(t, nc, violations, "lab", "me", "other")
	if _, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", port), nats.NoReconnect()); err == nil || errors.Is(err, nats.ErrNoServers) {
		t.Errorf("nobody, with no password: %v", err)
	}
}
