//go:build unix && !linux

package process

import "syscall"

// apart gives a command its own process group. It survives this process if that is killed.
func apart(as *Credential, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true}
}
