// Package live is what can be seen of a run while it goes on. A Board is fed
// with what a run tells, row by row, or with the rows of a record as it grows,
// and answers snapshots, of which a terminal and a web page are made. It has no
// clock of its own: the same rows give the same snapshots. What it keeps is
// bounded, however long a run takes.
package live
