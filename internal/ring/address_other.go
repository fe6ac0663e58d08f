//go:build !linux

package ring

// kernelForm is not used by package net.
type kernelForm struct{}

func (*kernelForm) encode() {}
