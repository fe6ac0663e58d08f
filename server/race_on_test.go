//go:build race

package server

// raceDetector is on, and with it a sync.Pool that drops some of what it is given.
const raceDetector = true
