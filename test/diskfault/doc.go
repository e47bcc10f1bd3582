// Package diskfault proves, on a real disk and from outside the process, that no fault of the disk makes
// store/boltstore give a wrong answer.
//
// A worker process uses a store and says on its output what the store answered. It runs under strace, which
// makes system calls fail, hang or end the process, and which records what was written and synced. Another
// process, the inspector, opens what is left and compares it with what was answered. A third part replays a
// record to what a disk may hold after power was lost at any moment, and lets the inspector look at each.
//
// It may import the public packages of the framework only. It needs Linux and strace.
package diskfault
