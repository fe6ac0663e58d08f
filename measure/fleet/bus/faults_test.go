//go:build linux

package bus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/natstest"
	"ceiling/internal/needs"
	"ceiling/measure/fleet/bus"
	"ceiling/measure/fleet/controller"
)

func TestWhatAControllerCannotStartOn(t *testing.T) {
	full := needs.Disk(t, 1<<20)
	b := parallel(t)
	port := b.URL()[strings.LastIndexByte(b.URL(), ':')+1:]
	write := func(text string) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "controller.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(o controller.Options, want string) {
		t.Helper()
		s, err := controller.Serve(o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	check(controller.Options{}, "no such file or directory")
	check(controller.Options{State: b.State}, fmt.Sprintf("in use by another controller (process %d)", os.Getpid()))
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:" + port}, "port "+port+" is taken")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1:x"}, "want host:port")
	check(controller.Options{State: t.TempDir(), Listen: "192.0.2.1:0"}, "cannot assign requested address")
	check(controller.Options{State: t.TempDir(), Listen: "127.0.0.1", Advertise: "0.0.0.0"}, "cannot advertise")
	check(controller.Options{State: t.TempDir(), Bed: "a.b"}, "test bed \"a.b\"")
	check(controller.Options{State: filepath.Join(file, "x")}, "not a directory")
	check(controller.Options{State: "/proc/1/state"}, "/proc/1/state")
	check(controller.Options{State: write("not JSON")}, "is not a controller's state")
	check(controller.Options{State: write(`{"version":1}`)}, "is of version 1, this ceiling knows 2")
	check(controller.Options{State: write(`{"version":2}`)}, "lacks a key")
	needs.Fill(t, full)
	check(controller.Options{State: filepath.Join(full, "state")}, "no space left on device")

	if _, err := bus.Drive(natstest.Within(t), bus.Access{State: t.TempDir()}, bus.Watch{}); err == nil || !strings.Contains(err.Error(), "ceiling fleet controller") {
		t.Errorf("drive without a controller: %v", err)
	}
	b.Close()
	check(controller.Options{State: b.State, Bed: "field"}, "belongs to test bed lab, not field")
	info, err := os.Stat(filepath.Join(b.State, "controller.json"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the keys are %v, %v", info.Mode(), err)
	}
}

func TestLease(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	const ttl = 2 * time.Second
	b := natstest.Serve(t, controller.Options{LeaseTTL: ttl})
	ctx := natstest.Within(t)
	one, two := b.Drive(), b.Drive()
	lease, err := one.Acquire(ctx, "ann on lab1")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // for longer than it lives without being renewed
		if _, err := two.Acquire(ctx, "bob"); !errors.Is(err, bus.ErrHeld) || !strings.Contains(err.Error(), "in use by ann on lab1 since 2") {
			t.Fatalf("the second: %v", err)
		}
		time.Sleep(ttl / 2)
	}
	select {
	case <-lease.Lost():
		t.Fatalf("lost: %v", lease.Why())
	default:
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if lease, err = two.Acquire(ctx, "bob"); err != nil {
		t.Fatalf("released, but %v", err)
	}
	two.Close() // as if it crashed
	natstest.Await(t, "it is free again", func() bool {
		next, err := one.Acquire(ctx, "ann")
		return err == nil && next.Release(ctx) == nil
	})
	select {
	case <-lease.Lost():
	case <-ctx.Done():
		t.Fatal("the one that crashed believes that it holds it")
	}
	if lease.Why() == nil {
		t.Error("lost for no reason")
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
}

// TestAnAgentThatDied drops out of the list without a farewell.
func TestAnAgentThatDied(t *testing.T) {
	needs.Processes(t)
	b := parallel(t)
	driver, web := b.Drive(), b.Join("web1")
	agent(t, web)
	if found, err := driver.Agents(natstest.Within(t)); err != nil || len(found) != 1 {
		t.Fatalf("found %s, %v", found, err)
	}
	web.Close()
	for range 20 { // it is started again, and its last connection has gone without a farewell
		b.Join("web1").Close()
	}
	natstest.Await(t, "it is not on the list", func() bool {
		found, err := driver.Agents(natstest.Within(t))
		return err == nil && len(found) == 0
	})
	if _, err := driver.Ask(natstest.Within(t), b.id("web1"), nil); !errors.Is(err, bus.ErrGone) {
		t.Errorf("it still answers: %v", err)
	}
}
