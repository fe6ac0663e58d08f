// Package perturb takes something away from one resource for the time of a run,
// measures how much of it was left, and gives it back whatever happens.
//
// A station of a closed loop that is slowed by a factor k takes k times as long
// for everything; slow all of them by k and the throughput is 1/k of what it
// was. So the elasticities of throughput over the speeds of all stations add to
// one, and each is that station's share of the ceiling. That holds for speeds,
// not for caps: a quota of CPU time does nothing to a thread that is half idle
// until it bites, and then stops it for tens of milliseconds. CPU time is
// therefore taken by a hog (hog.go): a process with a thread on each of the
// CPUs, all of which run for a share of every quarter of a millisecond. A
// link's rate is lowered at its token bucket (link.go). Requests in flight are
// taken by the load itself.
//
// What is changed on the host is noted in a file before it is changed
// (note.go): if this process is killed, the next start finds the note and gives
// back. A hog ends with the process that started it.
package perturb
