package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"ceiling/internal/sys"
)

// TestProcOfThisProcess holds that the files of a real kernel are as the
// parsers think.
func TestProcOfThisProcess(t *testing.T) {
	if ns, err := sys.HostBusyNs(); err != nil || ns <= 0 {
		t.Errorf("host %d, %v", ns, err)
	}
	if n, err := bytesRead(os.Getpid()); err != nil || n == 0 {
		t.Errorf("read %d, %v", n, err)
	}
	if h := readHost(); h.Kernel == "" || h.CPU == "" || h.Cores < 1 || h.Go == "" {
		t.Errorf("%+v", h)
	}
}

func TestCountSamples(t *testing.T) {
	script := []byte(" 7 ffffffff81601af9 \n 7 7f53afa4d0af \n 8 65d455\n 9 40da4e\n\n")
	if all, user, err := countSamples(script, []int{7, 9}); all != 3 || user != 2 || err != nil {
		t.Errorf("%d %d %v", all, user, err)
	}
	for _, text := range []string{"", "7\n", "x 65d455\n", "7 0x12\n", "8 65d455\n"} {
		if all, user, err := countSamples([]byte(text), []int{7}); err == nil {
			t.Errorf("%q was taken: %d %d", text, all, user)
		}
	}
}

func FuzzCountSamples(f *testing.F) {
	f.Add([]byte(" 7 ffffffff81601af9 \n 7 7f53afa4d0af \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, user, err := countSamples(data, []int{7})
		if err == nil && (user > all || all < 1) {
			t.Errorf("%d of %d", user, all)
		}
	})
}

func TestOptions(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil || o.rounds != 7 || o.duration != 4*time.Second || o.connections != 64 || o.ledger != "docs/journal/bench.ndjson" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range []string{"-rounds 0", "-d 1500ms", "-d 0s", "-c 0", "-c 5000", "-only fun", "extra", "-rounds x", "-no"} {
		var stderr strings.Builder
		if code := command(context.Background(), strings.Fields(args), io.Discard, &stderr); code != exitRefused ||
			!strings.Contains(stderr.String(), "bench: ") {
			t.Errorf("%s: exit %d, %q", args, code, stderr.String())
		}
	}
	var stderr strings.Builder
	if code := command(context.Background(), []string{"-ceiling", "./not-there"}, io.Discard, &stderr); code != exitFailure ||
		!strings.Contains(stderr.String(), "make build") {
		t.Errorf("without the program: exit %d, %q", code, stderr.String())
	}
}
