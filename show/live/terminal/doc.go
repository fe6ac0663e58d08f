// Package terminal is the live view in a terminal: a few lines that are painted
// anew five times a second below what has been printed, and are gone when the
// run is over.
package terminal
