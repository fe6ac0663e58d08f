//go:build !linux

package server

const preforks = false

func onLinux() []framework { return nil }
