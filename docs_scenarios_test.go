package onefold_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testsOfTheTree are the names of all tests by the directory of their package, hidden directories left out.
func testsOfTheTree(t *testing.T) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		dir := filepath.ToSlash(filepath.Dir(path))
		if found[dir] == nil {
			found[dir] = map[string]bool{}
		}
		for _, f := range function.FindAllSubmatch(source, -1) {
			found[dir][string(f[1])] = true
		}
		return err
	}))
	return found
}

// proof is a test that a document names as "`package` `Test`"; a package counts until the next one on its line.
type proof struct{ page, line, dir, test string }

func proofsIn(t *testing.T, page string, tests map[string]map[string]bool) (proofs []proof) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		dir := ""
		for _, m := range code.FindAllStringSubmatch(line, -1) {
			if tests[m[1]] != nil {
				dir = m[1]
			}
			if strings.HasPrefix(m[1], "Test") {
				proofs = append(proofs, proof{page, strings.TrimSpace(line), dir, m[1]})
			}
		}
	}
	return proofs
}

func TestEachTestThatADocumentNamesIsInThePackageThatItNames(t *testing.T) {
	tests := testsOfTheTree(t)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		for _, p := range proofsIn(t, page, tests) {
			assert.True(t, tests[p.dir][p.test], "%s: package %q has no test %s", p.page, p.dir, p.test)
		}
	}
}

func TestTheTableOfScenariosNamesEveryScenarioTest(t *testing.T) {
	tests := testsOfTheTree(t)
	type place struct{ dir, test string }
	written, listed := map[place]bool{}, map[place]bool{}
	for dir, names := range tests {
		for name := range names {
			if strings.HasPrefix(name, "TestScenario_") {
				written[place{dir, name}] = true
			}
		}
	}
	for _, p := range proofsIn(t, "docs/scenarios.md", tests) {
		listed[place{p.dir, p.test}] = true
		row := strings.Fields(p.line)[1]
		assert.True(t, strings.HasPrefix(p.test, "TestScenario_"+row+"_"), "row %s lists %s", row, p.test)
	}
	assert.Equal(t, written, listed)
}

func TestEachRowOfTheScenariosIsThereOnce(t *testing.T) {
	page, err := os.ReadFile("docs/scenarios.md")
	require.NoError(t, err)
	proved, waiting, found := strings.Cut(string(page), "## Rows that wait")
	require.True(t, found)
	row := regexp.MustCompile(`(?m)^\| ([A-Z]\d\d) \| ([^|]+) \| ([^|]+) \|$`)
	for _, table := range []string{proved, waiting} {
		seen := map[string]bool{}
		for _, m := range row.FindAllStringSubmatch(table, -1) {
			assert.False(t, seen[m[1]], "%s is there twice", m[1])
			seen[m[1]] = true
			assert.True(t, strings.HasSuffix(m[2], "."), "%s: the rule is a sentence: %s", m[1], m[2])
		}
		assert.Len(t, seen, strings.Count(table, "\n| ")-2, "each line of the table is a row")
	}
}
