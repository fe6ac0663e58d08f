package process

import "syscall"

// apart gives a command its own process group, and an end with the thread that starts it.
func apart(as *Credential, death syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Setpgid: true, Pdeathsig: death}
}
