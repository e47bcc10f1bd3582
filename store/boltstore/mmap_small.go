//go:build !unix || !(amd64 || arm64 || ppc64 || ppc64le || mips64 || mips64le || riscv64 || s390x || loong64)

package boltstore

// DefaultMmapBytes is the address space that is mapped at Open. It is small where addresses are scarce and
// on Windows, where the file itself grows to the mapped size.
const DefaultMmapBytes = 64 << 20
