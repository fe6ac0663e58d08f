package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// fullEnv makes the test binary fill the disk that is mounted where it says, under the database that writeEnv names.
const fullEnv = "CEILING_TEST_FULL"

// A disk that is full at a commit is an error for the writes that it hits. What was acknowledged before is there, and
// when there is room again the server goes on without a restart.
func TestDiskIsFullAtCommit(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	for source, size := range map[string]string{"sqlite": "8m", "postgres": "150m"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			// The disk is there for this process alone, and gone with it; PostgreSQL's user can get to it.
			const dir = "/var/tmp"
			cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs -o mode=1777,size=$1 ceiling "$2" && exec "$3"`,
				"sh", size, dir, os.Args[0])
			cmd.Env = append(os.Environ(), fullEnv+"="+dir, writeEnv+"="+source, "TMPDIR="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

func fillDisk(dir, source string) (err error) {
	ctx := context.Background()
	if source == "sqlite" {
		source = "sqlite:" + filepath.Join(dir, "db")
	}
	d, err := Prepare(ctx, source, testProducts(), Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Discard()) }()
	if source == "postgres" && !strings.Contains(d.Source(), strings.ReplaceAll(dir, "/", "%2F")) {
		return fmt.Errorf("the cluster is not on the disk: %s", d.Source())
	}
	s, err := Open(ctx, d, testBrands(), Options{Pool: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	filler := filepath.Join(dir, "filler")
	if err := fillUp(filler); err != nil {
		return err
	}
	acks, why := insertUntilItFails(s)
	if why == nil || strings.Contains(why.Error(), "\n") {
		return fmt.Errorf("the disk is full, and after %d entries the insert says %v", len(acks), why)
	}
	fmt.Printf("%d entries, then: %v\n", len(acks), why)
	if err := os.Remove(filler); err != nil {
		return err
	}
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, err := s.Insert(1)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("20 s after there is room again: %w", err)
		}
	}
	for _, id := range acks {
		var have int
		if err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM entry WHERE id = $1", id).Scan(&have); err != nil || have != 1 {
			return fmt.Errorf("entry %d was acknowledged and is there %d times (%w)", id, have, err)
		}
	}
	return nil
}

// fillUp writes a file until the disk is full, and leaves room for a few entries.
func fillUp(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	size := int64(0)
	for n := 0; err == nil; size += int64(n) {
		n, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return f.Truncate(size - 256<<10)
}

func insertUntilItFails(s *Store) (acks []int64, err error) {
	for range 300_000 {
		e := s.entry(1)
		if err := s.exec(&s.all.insert, e.id, e.product, e.quantity, e.note); err != nil {
			return acks, err
		}
		acks = append(acks, e.id)
	}
	return acks, nil
}
