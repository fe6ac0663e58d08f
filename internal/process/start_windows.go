package process

import (
	"os"
	"syscall"
)

// Credential is a user; commands run as this process's.
type Credential struct{}

// apart keeps the console's interrupt from a command. It survives this process if that is killed.
func apart(*Credential, syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// signal ends a process, of a group the first one: there is no other signal.
func signal(pid int, s syscall.Signal) error {
	if pid < 0 {
		pid = -pid
	}
	p, err := os.FindProcess(pid)
	if err != nil || s == 0 {
		return err
	}
	defer p.Release()
	return p.Kill()
}
