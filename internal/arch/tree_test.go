package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is one parsed Go file of the module.
type file struct {
	name string // relative to the module's root, with slashes
	dir  string // of its package; "." is the root
	test bool
	set  *token.FileSet
	tree *ast.File
}

// lines is the length of the file.
func (f *file) lines() int { return f.set.File(f.tree.Pos()).LineCount() }

// line is where pos is.
func (f *file) line(pos token.Pos) int { return f.set.Position(pos).Line }

// moduleFiles parses all Go files of this module. Directories with a go.mod of their own are other
// modules and are left out.
func moduleFiles(t *testing.T) []*file {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	var files []*file
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && leftOut(path, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parse(root, path)
		files = append(files, f)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func leftOut(path, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil
}

func parse(root, path string) (*file, error) {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	name = filepath.ToSlash(name)
	dir := filepath.ToSlash(filepath.Dir(filepath.FromSlash(name)))
	return &file{name: name, dir: dir, test: strings.HasSuffix(name, "_test.go"), set: set, tree: tree}, nil
}
