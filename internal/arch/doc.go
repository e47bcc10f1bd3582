// Package arch holds the tests that keep the module's shape: which package may import which, how long
// files and functions may be, that every package says what it is for. It has no code of its own; the
// rules are tables in rules_test.go, and a package that no rule knows fails until it is given one.
package arch
