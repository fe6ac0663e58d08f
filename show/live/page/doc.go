// Package page is the live view in a browser: a small web server inside this
// process that shows a live.Board. The page loads nothing from elsewhere; what
// happens comes as server-sent events. Whoever looks late gets the run from its
// beginning, and whoever does not read is dropped: nobody can hold a run up.
package page
