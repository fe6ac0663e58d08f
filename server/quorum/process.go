package quorum

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"ceiling/internal/process"
	"ceiling/measure/netns"
)

// run starts this program as a replica, configured by its environment, in a namespace if given.
// To stop it is to kill it, like a crash: its files are deleted with it, or a test examines them.
func run(p *plan, in *netns.Namespace) (*process.Process, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	// Under its original name, on which a program may depend.
	name, err := exec.LookPath(os.Args[0])
	if err != nil {
		if name, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	// The command line shows the replica's name in process lists; the variable is what matters.
	args := []string{"replica", p.Name}
	if in != nil {
		name, args = in.Within(name, args...)
	}
	c := process.Command{Name: name, Args: args, Env: []string{ReplicaEnv + "=" + string(text)}, Death: syscall.SIGKILL,
		Ready: func(line string) (string, bool) { return "", line == readyLine }}
	one, err := c.Start()
	if err != nil {
		return nil, fmt.Errorf("start replica %s: %w", p.Name, err)
	}
	return one, nil
}
