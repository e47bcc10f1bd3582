// Package disk is what the store asks of the file system beyond package os: room for a file before it is
// needed, writing that begins early, entries of a directory that last, a file that is read from the disk anew or
// given back in steps, and which errors say that the disk is used up.
//
// It may import the standard library.
package disk
