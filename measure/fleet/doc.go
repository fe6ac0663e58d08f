// Package fleet does a run on several machines. An agent offers one machine to
// those who hold the credentials of its test bed; the driver of a run shares
// the run out over some of them and is their run.Work: what they tell arrives,
// is merged at times that all have reached, and is told on as if one machine
// had done it.
package fleet
