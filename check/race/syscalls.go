package race

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ceiling/measure/load"
)

// after measures what would disturb the rounds: system calls, which somebody has
// to count.
func (r *race) after(ctx context.Context, k *Case, runners []*runner) error {
	if k.GoWrk {
		return nil
	}
	counter, by := perfCounter, "perf"
	if _, err := exec.LookPath("perf"); err != nil {
		counter, by = straceCounter, "strace"
		if _, err := exec.LookPath("strace"); err != nil {
			r.result.note("system calls were not counted: neither perf nor strace is here (apt-get install linux-perf)")
			return nil
		}
	}
	for _, n := range runners {
		if n.row.NotRaced != "" {
			continue
		}
		r.say("%s: system calls of %s", k.Name, n.Name)
		per, err := r.countCalls(ctx, k, n, counter)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.result.note("system calls were not counted: " + by + ": " + err.Error())
			return nil
		}
		n.row.SyscallsPerRequest, n.row.SyscallsBy = &per, by
	}
	return nil
}

// countCalls counts the calls of a contestant's processes during a closed loop.
func (r *race) countCalls(ctx context.Context, k *Case, n *runner,
	begin func(ctx context.Context, pids []int) (func() (uint64, error), error)) (float64, error) {
	pids, err := tree(n.child.PID)
	if err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, r.Duration+checkPatience)
	defer cancel()
	stop, err := begin(limited, pids)
	if err != nil {
		return 0, err
	}
	res, err := load.Run(limited, r.config(k, n), quiet{})
	calls, stopErr := stop()
	if err := errors.Join(err, stopErr); err != nil {
		return 0, err
	}
	if res.Total.Completed == 0 {
		return 0, errors.New("nothing was completed")
	}
	return float64(calls) / float64(res.Total.Completed), nil
}

func pidList(pids []int) string {
	var list []string
	for _, pid := range pids {
		list = append(list, strconv.Itoa(pid))
	}
	return strings.Join(list, ",")
}

// perfCounter counts with the tracepoint raw_syscalls:sys_enter, in the kernel. It
// begins disabled, and says when it has begun (perf-stat(1), --control).
func perfCounter(ctx context.Context, pids []int) (stop func() (uint64, error), err error) {
	var files [4]*os.File // control: ours is 1; acknowledgements: ours is 2
	if files[0], files[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	if files[2], files[3], err = os.Pipe(); err != nil {
		return nil, errors.Join(err, files[0].Close(), files[1].Close())
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "perf", "stat", "-x", ",", "-D", "-1", "--control", "fd:3,4", "-e", "raw_syscalls:sys_enter", "-p",
		pidList(pids))
	cmd.Stderr, cmd.ExtraFiles = &out, []*os.File{files[0], files[3]}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	err = cmd.Start()
	err = errors.Join(err, files[0].Close(), files[3].Close())
	acks := bufio.NewReader(files[2])
	tell := func(word string) error {
		if _, err := files[1].WriteString(word + "\n"); err != nil {
			return err
		}
		_, err := acks.ReadString('\n') // "ack", behind a NUL from the one before
		return err
	}
	end := func() (uint64, error) {
		err := errors.Join(interrupt(cmd), files[1].Close(), files[2].Close())
		if err != nil {
			return 0, err
		}
		return parsePerf(out.Bytes())
	}
	if err != nil {
		return nil, errors.Join(err, files[1].Close(), files[2].Close())
	}
	if err := tell("enable"); err != nil {
		_, endErr := end()
		return nil, fmt.Errorf("it does not begin: %w: %s", errors.Join(err, endErr), bytes.TrimSpace(out.Bytes()))
	}
	return func() (uint64, error) {
		if err := tell("disable"); err != nil {
			_, endErr := end()
			return 0, errors.Join(err, endErr)
		}
		return end()
	}, nil
}

// interrupt ends a counter as a person does, by which it prints what it counted.
func interrupt(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // both end by the signal that they were sent
	}
	return err
}

// parsePerf reads "COUNT,,raw_syscalls:sys_enter,…".
func parsePerf(out []byte) (uint64, error) {
	for line := range bytes.Lines(out) {
		f := strings.Split(string(line), ",")
		if len(f) > 2 && f[2] == "raw_syscalls:sys_enter" {
			n, err := strconv.ParseUint(f[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("it counted %q", f[0])
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("it said %q", bytes.TrimSpace(out))
}

// straceCounter counts with strace -c, which stops the process at every call: the
// figure is of a slowed contestant.
func straceCounter(ctx context.Context, pids []int) (stop func() (uint64, error), err error) {
	out, err := os.CreateTemp("", "ceiling-race-strace-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return errors.Join(out.Close(), os.Remove(out.Name())) }
	cmd := exec.CommandContext(ctx, "strace", "-c", "-f", "-o", out.Name(), "-p", pidList(pids))
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	lines, attached, quietly := make(chan string), 0, time.NewTimer(checkPatience)
	defer quietly.Stop()
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(said); s.Scan(); {
			lines <- s.Text()
		}
	}()
	drain := func() {
		for range lines { // until it has ended
		}
	}
	for attached < len(pids) {
		select {
		case line, more := <-lines:
			if strings.Contains(line, " attached") {
				attached++
			}
			if !more {
				return nil, errors.Join(errors.New("it does not attach"), interrupt(cmd), remove())
			}
		case <-quietly.C:
			go drain()
			return nil, errors.Join(errors.New("it does not attach"), interrupt(cmd), remove())
		}
	}
	return func() (n uint64, err error) {
		go drain()
		err = interrupt(cmd)
		text, readErr := os.ReadFile(out.Name())
		if err = errors.Join(err, readErr, remove()); err != nil {
			return 0, err
		}
		return parseStrace(text)
	}, nil
}

// parseStrace adds up the lines "60.00 SECONDS USECS CALLS [ERRORS] NAME". The last
// line has their sum, which not every version gives the same columns.
func parseStrace(text []byte) (sum uint64, err error) {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 5 || string(f[len(f)-1]) == "total" {
			continue
		}
		if _, err := strconv.ParseFloat(string(f[0]), 64); err != nil {
			continue // the head of the table, or a rule
		}
		n, err := strconv.ParseUint(string(f[3]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("line %q: %w", line, err)
		}
		sum += n
	}
	if sum == 0 {
		return 0, fmt.Errorf("no call in %q", text)
	}
	return sum, nil
}
