package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What dead processes have left is removed, and what is in use or not ours is not.
func TestDeadAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	const prefix = "ceiling-test-"
	dead := filepath.Join(parent, prefix+"dead")
	other := filepath.Join(parent, "other")
	for _, dir := range []string{dead, other} {
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, lockName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := New(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}
	second, err := New(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{dead: false, other: true, first.Path: true, second.Path: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := errors.Join(first.Remove(), second.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(first.Path); err == nil {
		t.Error("it is there after it was removed")
	}
}
